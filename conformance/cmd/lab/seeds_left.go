package main

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// seedsPath is the package whose Fewer, Long and Race make a test do less under the race detector.
const seedsPath = "github.com/goroce/goroce/internal/seeds"

// declared is a function, a method (".Name", of whatever type) or a variable of a package.
type declared struct{ pkg, name string }

// left returns the arguments for go test that run what the race detector leaves out: the tests that
// call seeds.Fewer, seeds.Long or ask seeds.Race, themselves or by a helper. It looks at names
// only, so it may find too many, such as a test with a variable that has the name of such a helper.
func left(ctx context.Context, patterns []string) ([]string, error) {
	all, err := goList(ctx, patterns)
	if err != nil {
		return nil, err
	}
	g := graph{}
	for _, p := range all {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			if p.ImportPath != seedsPath {
				g.add(p.ImportPath, f)
			}
		}
	}
	var names, pkgs []string
	for _, d := range g.tests() {
		names, pkgs = append(names, d.name), append(pkgs, d.pkg)
	}
	slices.Sort(names)
	slices.Sort(pkgs)
	run := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
	return append([]string{"-run", run}, slices.Compact(pkgs)...), nil
}

// graph has, for each thing that is declared, what uses it.
type graph map[declared][]declared

// tests returns the tests that do less under the race detector.
func (g graph) tests() (found []declared) {
	seen := map[declared]bool{}
	todo := []declared{{seedsPath, "Fewer"}, {seedsPath, "Long"}, {seedsPath, "Race"}}
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[d] {
			continue
		}
		seen[d] = true
		if strings.HasPrefix(d.name, "Test") {
			found = append(found, d)
		}
		todo = append(todo, g[d]...)
	}
	return found
}

// add adds what each declaration of a file names.
func (g graph) add(pkg string, f *ast.File) {
	tell := func(user, used declared) { g[used] = append(g[used], user) }
	imports := map[string]string{}
	for _, i := range f.Imports {
		full := strings.Trim(i.Path.Value, `"`)
		name := path.Base(full)
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = full
	}
	var within func(user declared, n ast.Node)
	within = func(user declared, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok && imports[id.Name] != "" {
					tell(user, declared{imports[id.Name], n.Sel.Name})
				} else {
					tell(user, declared{pkg, "." + n.Sel.Name})
					within(user, n.X)
				}
				return false
			case *ast.KeyValueExpr:
				if _, field := n.Key.(*ast.Ident); field {
					within(user, n.Value)
					return false
				}
			case *ast.Ident:
				tell(user, declared{pkg, n.Name})
			}
			return true
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			user := declared{pkg, d.Name.Name}
			if d.Recv != nil {
				user.name = "." + user.name
			}
			if d.Body != nil {
				within(user, d.Body)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					for _, id := range v.Names {
						for _, x := range v.Values {
							within(declared{pkg, id.Name}, x)
						}
					}
				}
			}
		}
	}
}
