package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// A test that asks the seeds package itself, by a helper, a method, a variable or a helper of
// another package is found; what only has a field of that name is not.
func TestLeft(t *testing.T) {
	g := graph{}
	for pkg, text := range map[string]string{
		"x/a": `import ("testing"; "x/b"; "github.com/goroce/goroce/internal/seeds"; s "github.com/goroce/goroce/internal/seeds")
			func TestItself(t *testing.T) { seeds.Long(t) }
			func TestAlias(t *testing.T) { t.Run("", func(t *testing.T) { _ = s.Fewer(3) }) }
			func few() int { if seeds.Race { return 1 }; return 2 }
			func TestHelper(t *testing.T) { for range few() {} }
			type rig struct{ few int }
			func (r *rig) start() { few() }
			func TestMethod(t *testing.T) { new(rig).start() }
			var table = []int{few(), 1}
			func TestVariable(t *testing.T) { _ = table }
			func TestOther(t *testing.T) { b.Run(t) }
			func TestNot(t *testing.T) { _ = rig{few: 1}.few; seeds.Run(t, 1, nil); b.Walk(t) }`,
		"x/b": `import ("testing"; "github.com/goroce/goroce/internal/seeds")
			func Run(t testing.TB) { step(t) }
			func Walk(t testing.TB) {}
			func step(t testing.TB) { seeds.Long(t) }`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package p; "+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		g.add(pkg, f)
	}
	got := map[string]bool{}
	for _, d := range g.tests() {
		got[d.name] = true
	}
	want := strings.Fields("TestItself TestAlias TestHelper TestMethod TestVariable TestOther")
	for _, name := range want {
		if !got[name] {
			t.Errorf("%s is not found", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("found %v", got)
	}
}
