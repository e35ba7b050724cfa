package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// source is a Go file of the tree that is no test.
type source struct {
	name  string // below the root, with slashes
	lines int
	file  *ast.File
}

// sources reads the tree once, without testdata. Tests are left out, unless they are asked for.
func sources(t *testing.T, tests bool) (all []source) {
	t.Helper()
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && file != ".." && (base == "testdata" || base[0] == '.' || base[0] == '_') {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || !tests && strings.HasSuffix(file, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, b, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all,
			source{strings.TrimPrefix(filepath.ToSlash(file), "../"), strings.Count(string(b), "\n"), parsed})
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// lineBudgets are the most lines of Go, without tests, that a folder and those below it may have. A
// commit that raises one says why. One that is far above what is there is lowered with the commit
// that made it so.
var lineBudgets = map[string]int{
	"ib":                  2800,
	"mem":                 2125,
	"transport":           13405,
	"roce/verbs":          4811,
	"roce/rdmacm":         6286,
	"roce/rsocket":        6329,
	"roce/analyse":        9345,
	"roce/internal/shard": 3769,
	"roce/internal/slots": 2286,
	"roce/link":           17282,
	"cmd/internal":        26267,
	"cmd/verbs":           6891,
	"conformance":         36310,
	"bench":               23757,
	"internal":            3400,
	"bench/apps":          9116,
}

// packageBudget is the most packages of the main module.
const packageBudget = 96

func TestLineBudgets(t *testing.T) {
	seeds.Long(t)
	lines := map[string]int{}
	all := sources(t, false)
	for _, s := range all {
		for dir := path.Dir(s.name); dir != "."; dir = path.Dir(dir) {
			lines[dir] += s.lines
		}
	}
	for dir, most := range lineBudgets {
		t.Logf("%s: %d lines of %d", dir, lines[dir], most)
		if n := lines[dir]; n == 0 || n > most {
			t.Errorf(
				"%s has %d lines, its budget is %d: make it smaller, or raise the budget and say why in the commit",
				dir, n, most)
		}
	}
	n := len(packages(all))
	t.Logf("%d packages of %d", n, packageBudget)
	if n > packageBudget {
		t.Errorf("%d packages, the budget is %d", n, packageBudget)
	}
}

// packages are the folders of the main module that have Go code.
func packages(all []source) map[string]bool {
	found := map[string]bool{}
	for _, s := range all {
		if !within(s.name, "cmd/verbs") && !within(s.name, "roce/prometheus") && !within(s.name, "bench/apps") {
			found[path.Dir(s.name)] = true
		}
	}
	return found
}

// nameBudgets are the most exported names of a package: functions, types, constants and variables,
// and the methods of exported types. A commit that raises one says why.
var nameBudgets = map[string]int{
	"ib":                  235,
	"mem":                 119,
	"transport":           263,
	"roce":                124,
	"roce/verbs":          303,
	"roce/rdmacm":         86,
	"roce/rsocket":        73,
	"roce/link":           36,
	"roce/internal/shard": 106,
}

// shellBudget is the most numbers that the rules of the run loop have.
const shellBudget = 26

// Each says which rows of the table of rules need it, or that none does.
func TestShellNumbers(t *testing.T) {
	table, err := os.ReadFile("../docs/bench/scheduler/README.md")
	require.NoError(t, err)
	fset := token.NewFileSet()
	files, err := filepath.Glob("../roce/internal/shard/*.go")
	require.NoError(t, err)
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			rows := ""
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if v.Doc != nil {
					_, rows, _ = strings.Cut(v.Doc.Text(), "Rows: ")
				}
				if !numeric(v) {
					continue
				}
				n += len(v.Names)
				if !namesRows(rows, string(table)) {
					t.Errorf("%v: %s names no row of docs/bench/scheduler: %q", fset.Position(v.Pos()),
						v.Names[0], rows)
				}
			}
		}
	}
	t.Logf("%d numbers of %d", n, shellBudget)
	if n == 0 || n > shellBudget {
		t.Errorf(
			"the shell has %d numbers, the budget is %d: does one that is there say the same, or follow from another?",
			n, shellBudget)
	}
}

// namesRows reports whether a comment names rows of a table, by what is in brackets at the end of
// their first column, or says why it names none.
func namesRows(rows, table string) bool {
	names, ok := strings.CutSuffix(rows, ".\n")
	if strings.HasPrefix(names, "none, ") {
		return ok
	}
	for _, r := range strings.Split(names, ", ") {
		ok = ok && (strings.Contains(table, "("+r+") |") || strings.Contains(table, "\n| "+r+" |"))
	}
	return ok
}

// numeric reports whether a constant is written as a number, or a time, and not made of other
// constants or iota.
func numeric(v *ast.ValueSpec) (found bool) {
	for _, x := range v.Values {
		ast.Inspect(x, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				found = found || n.Kind != token.STRING
			case *ast.SelectorExpr: // of package time
				found = true
			}
			return true
		})
	}
	return found
}

func TestNameBudgets(t *testing.T) {
	seeds.Long(t)
	names := map[string]int{}
	for _, s := range sources(t, false) {
		names[path.Dir(s.name)] += len(exported(s.file))
	}
	for pkg, most := range nameBudgets {
		t.Logf("%s: %d exported names of %d", pkg, names[pkg], most)
		if n := names[pkg]; n == 0 || n > most {
			t.Errorf("%s has %d exported names, its budget is %d: is there a way already, or one that can go?", pkg, n,
				most)
		}
	}
}

// pairs returns those names that are another one with "With" behind it: two ways of one thing, of
// which one has options.
func pairs(names []string) (found []string) {
	for _, n := range names {
		if short, ok := strings.CutSuffix(n, "With"); ok && slices.Contains(names, short) {
			found = append(found, n)
		}
	}
	return found
}

// In the packages of the API options are an argument, nil for none.
func TestNoPairsWith(t *testing.T) {
	names := map[string][]string{}
	for _, s := range sources(t, false) {
		names[path.Dir(s.name)] = append(names[path.Dir(s.name)], exported(s.file)...)
	}
	for _, pkg := range []string{"roce", "roce/verbs", "roce/rdmacm", "roce/rsocket"} {
		require.NotEmpty(t, names[pkg], pkg)
		for _, n := range pairs(names[pkg]) {
			t.Errorf("%s: %s and the same without With: let the options be an argument", pkg, n)
		}
	}
	require.Equal(t, []string{"T.MakeWith"}, pairs([]string{"T.Make", "T.MakeWith", "MakeWith", "StartsWith"}))
}

// exported returns the exported names that a file declares; methods are Type.Method.
func exported(f *ast.File) (names []string) {
	add := func(prefix string, id *ast.Ident) {
		if id.IsExported() {
			names = append(names, prefix+id.Name)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add("", d.Name)
			} else if r := receiver(d); ast.IsExported(r) {
				add(r+".", d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add("", s.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add("", id)
					}
				}
			}
		}
	}
	return names
}

// receiver is the name of the type that a method is of.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return ""
		}
	}
}

// untyped returns the package variables that are functions with a parameter of type any: a way past
// the compiler, and past the order of the layers, from one package to another.
func untyped(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			types := append([]ast.Expr{v.Type}, v.Values...)
			for _, x := range types {
				if l, ok := x.(*ast.FuncLit); ok {
					x = l.Type
				}
				if fn, ok := x.(*ast.FuncType); ok && slices.ContainsFunc(fn.Params.List, takesAny) {
					names = append(names, v.Names[0].Name)
				}
			}
		}
	}
	return names
}

// takesAny reports whether a parameter is an any, or an interface without methods. What fmt takes
// ("...any") is none.
func takesAny(p *ast.Field) bool {
	switch x := p.Type.(type) {
	case *ast.Ident:
		return x.Name == "any"
	case *ast.InterfaceType:
		return len(x.Methods.List) == 0
	}
	return false
}

func TestNoUntypedDoors(t *testing.T) {
	seeds.Long(t)
	for _, s := range sources(t, false) {
		for _, name := range untyped(s.file) {
			t.Errorf("%s: variable %s is a function of any", s.name, name)
		}
	}
	for source, want := range map[string]int{
		`var F func(any) int`:                            1,
		`var ( A, B func(x interface{}); C func() )`:     1,
		`var F = func(a int, x any) {}`:                  1,
		`var F func(format string, args ...any)`:         0,
		`var F func(x interface{ Core() int })`:          0,
		`func f(x any) {}; type T struct{ F func(any) }`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package p; "+source, parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Len(t, untyped(f), want, source)
	}
}

// floors is the order inside of the folders besides roce: a package imports those before it, and
// what is below its own folder. Tests may import all.
var floors = map[string][]string{
	"roce/link": {
		"", "fault", "trace", "internal/receive", "internal/sockio", "internal/frame", "internal/nexthop",
		"internal/transmit", "internal/endpoint", "udp", "packet", "xdp", "sim", "linktest",
	},
	"conformance": {
		"", "lab/guestproto", "lab/ether", "lab/labd", "lab", "switchlink", "soak", "peer", "agent", "programs",
		"suites", "matrix", "drill", "grammar", "hosts", "conform", "captures", "cmd",
	},
	"bench": {
		"", "node", "attack", "quota", "report", "paths", "simreport", "guests", "suite", "micro", "cmd",
		"apps/mesh", "apps/kv", "apps/reduce", "apps/cache", "apps/raftroce", "apps/store", "apps/scale",
		"apps/valkey", "apps/cmd",
	},
}

// climbs returns what a file imports of its folder that is not before it in the order.
func climbs(folder string, order []string, name string, f *ast.File) (found []string) {
	floor := func(pkg string) int {
		best := -1
		for i, r := range order {
			if within(pkg, path.Join(folder, r)) && (best < 0 || len(r) > len(order[best])) {
				best = i
			}
		}
		return best
	}
	from := path.Dir(name)
	if floor(from) < 0 {
		return []string{from + " has no place in the order of " + folder}
	}
	for _, i := range f.Imports {
		own, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), modulePath+"/")
		if ok && within(own, folder) && !within(own, from) && floor(own) >= floor(from) {
			found = append(found, fmt.Sprintf("%s must not import %s", from, own))
		}
	}
	return found
}

func TestFloors(t *testing.T) {
	seeds.Long(t)
	all := sources(t, false)
	for folder, order := range floors {
		n := 0
		for _, s := range all {
			if within(s.name, folder) {
				n++
				for _, c := range climbs(folder, order, s.name, s.file) {
					t.Errorf("%s: %s", s.name, c)
				}
			}
		}
		require.NotZero(t, n, folder)
	}
	order := []string{"low", "mid", "mid/in", "high"}
	for source, want := range map[string]int{
		"x/mid/a.go x/low": 0, "x/mid/a.go x/high": 1, "x/mid/a.go x/mid/own": 0, "x/mid/a.go x/mid/in": 0,
		"x/mid/in/a.go x/mid": 0, "x/mid/in/a.go x/high/y": 1, "x/new/a.go x/low": 1, "x/low/a.go y": 0,
		"x/low/a/a.go x/low/b": 1,
	} {
		name, target, _ := strings.Cut(source, " ")
		f, err := parser.ParseFile(token.NewFileSet(), "a.go",
			fmt.Sprintf("package p; import %q", modulePath+"/"+target), parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Len(t, climbs("x", order, name, f), want, source)
	}
}

// onlyForC are the exported functions and methods of the API that only cmd/verbs calls. Others have
// no need of them, so they belong behind Core, which internal/core opens. This list has what is
// there for Go, too.
var onlyForC = []string{
	"rdmacm.RouteSource",     // of package roce, too
	"rsocket.Conn.CloseRead", // as a net.TCPConn has it
}

func TestNamesOnlyForC(t *testing.T) {
	seeds.Long(t)
	api := []string{"roce", "roce/verbs", "roce/rdmacm", "roce/rsocket"}
	declared := map[string]string{} // the last part of a name: package and whole name
	used, inC := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t, true) {
		dir, test := path.Dir(s.name), strings.HasSuffix(s.name, "_test.go")
		if slices.Contains(api, dir) && !test {
			for _, n := range functions(s.file) {
				declared[n[strings.LastIndex(n, ".")+1:]] = path.Base(dir) + "." + n
			}
		}
		uses := used
		if within(s.name, "cmd/verbs") {
			uses = inC
		} else if slices.Contains(api, dir) && s.file.Name.Name == path.Base(dir) {
			continue // a package's own use, and its tests', make nothing public
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				uses[n.Sel.Name] = true
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					uses[id.Name] = true
				}
			}
			return true
		})
	}
	require.NotEmpty(t, inC)
	var found []string
	for last, name := range declared {
		if inC[last] && !used[last] {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	for _, name := range found {
		if !slices.Contains(onlyForC, name) {
			t.Errorf("%s: only cmd/verbs calls it", name)
		}
	}
	for _, name := range onlyForC {
		if !slices.Contains(found, name) {
			t.Logf("%s need not be in the list any more", name)
		}
	}
}

// functions are those of the exported names of a file that are functions or methods.
func functions(f *ast.File) (names []string) {
	only := &ast.File{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			only.Decls = append(only.Decls, fn)
		}
	}
	return exported(only)
}

// commentWidth bounds the columns of comments, a tab being four.
const commentWidth = 100

func TestCommentWidth(t *testing.T) {
	seeds.Long(t)
	n := 0
	for _, s := range sources(t, true) {
		n++
		b, err := os.ReadFile(filepath.Join("..", s.name))
		require.NoError(t, err)
		for _, line := range wide(string(b)) {
			t.Errorf("%s:%d: a comment beyond %d columns", s.name, line, commentWidth)
		}
	}
	require.NotZero(t, n)
	long := strings.Repeat("x ", commentWidth/2)
	require.Equal(t, []int{1, 3},
		wide("// "+long+"\ncode() // "+long+"\n\t// "+long[6:]+"\n// "+long[3:]+"\n//\t"+long+"\n// Output:\n// "+long))
}

// wide returns the lines that are comments alone and too long. What is set apart as code, a table
// or an address has no better place to break.
func wide(text string) (lines []int) {
	output := false // of an example, whose lines are as long as what it prints
	for i, l := range strings.Split(text, "\n") {
		c, ok := strings.CutPrefix(strings.TrimLeft(l, "\t"), "// ")
		output = ok && (output || c == "Output:")
		if ok && !output && !strings.HasPrefix(c, " ") && strings.Contains(c, " ") &&
			!strings.Contains(c, "://") && len(strings.ReplaceAll(l, "\t", "    ")) > commentWidth {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// codeWidth bounds the columns of lines with code, a tab being four.
const codeWidth = 120

func TestCodeWidth(t *testing.T) {
	seeds.Long(t)
	n := 0
	for _, s := range sources(t, true) {
		n++
		b, err := os.ReadFile(filepath.Join("..", s.name))
		require.NoError(t, err)
		for _, line := range wideCode(t, b) {
			t.Errorf("%s:%d: code beyond %d columns: break it behind a comma or an operator", s.name, line, codeWidth)
		}
	}
	require.NotZero(t, n)
	name, long := strings.Repeat("x", codeWidth-7), strings.Repeat("x ", codeWidth/2)
	require.Equal(t, []int{1, 3, 8}, wideCode(t, []byte("package p // "+long+"\n// "+long+"\nvar "+name+" int\n"+
		"var "+name[1:]+" int\nvar a = `\n"+long+"x` // "+long+"\nvar b = `"+long[:codeWidth-22]+"` + `"+long+"`\n"+
		"var c = `"+long[:codeWidth-22]+"` + `"+long[:codeWidth-22]+"`\n")))
	require.Empty(t, wideCode(t, []byte("// Code generated by a test. DO NOT EDIT.\npackage p // "+long)))
}

// wideCode returns the lines with code, and comments behind it, that are too long. It lets those
// be on which a string has several lines, or would leave no room for code on a line of its own.
func wideCode(t *testing.T, src []byte) (lines []int) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	if ast.IsGenerated(f) {
		return nil
	}
	excused := map[int]bool{}
	text := strings.Split(string(src), "\n")
	for _, g := range f.Comments {
		for _, c := range g.List {
			p := fset.Position(c.Pos())
			alone := strings.TrimSpace(text[p.Line-1][:p.Column-1]) == ""
			for i := p.Line; alone && i <= fset.Position(c.End()).Line; i++ {
				excused[i] = true // TestCommentWidth looks at it
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
			first, last := fset.Position(s.Pos()).Line, fset.Position(s.End()).Line
			indent := len(text[first-1]) - len(strings.TrimLeft(text[first-1], "\t"))
			for i := first; i <= last; i++ {
				excused[i] = excused[i] || last > first || 4*indent+len([]rune(s.Value)) > codeWidth-20
			}
		}
		return true
	})
	for i, l := range text {
		if !excused[i+1] && len([]rune(strings.ReplaceAll(l, "\t", "    "))) > codeWidth {
			lines = append(lines, i+1)
		}
	}
	return lines
}
