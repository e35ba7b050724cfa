package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// A structure that a program fills in or reads is declared where the program finds it: go doc
// prints of an alias one line, and no fields. Aliases of enumerations are fine, since their
// constants have the type. (Package roce names types of its neighbours, whose documentation is
// public.) An error has one type by all names, so that errors.As finds it whichever package it
// comes from: the comment of its alias names the fields.
func TestNoStructAliases(t *testing.T) {
	seeds.Long(t)
	named := map[string]bool{"transport.ArgError": true}
	structs := map[string]bool{} // "transport.WC"
	for _, pkg := range []string{"ib", "mem", "transport"} {
		eachType(t, pkg, func(_ *ast.File, s *ast.TypeSpec) {
			if _, ok := s.Type.(*ast.StructType); ok {
				structs[pkg+"."+s.Name.Name] = true
			}
		})
	}
	require.True(t, structs["transport.WC"], "the engine's types were not found")
	aliases := 0
	for _, pkg := range []string{"roce", "roce/verbs", "roce/rdmacm", "roce/rsocket"} {
		eachType(t, pkg, func(file *ast.File, s *ast.TypeSpec) {
			if !s.Assign.IsValid() || !s.Name.IsExported() {
				return
			}
			aliases++
			if sel, ok := s.Type.(*ast.SelectorExpr); ok {
				target := imported(t, file, sel.X.(*ast.Ident).Name) + "." + sel.Sel.Name
				require.False(t, structs[target] && !named[target],
					"%s.%s is an alias of %s, whose fields go doc does not show", pkg, s.Name.Name, target)
			}
		})
	}
	require.NotZero(t, aliases)
}

// eachType calls f for each type that a package declares.
func eachType(t *testing.T, pkg string, f func(*ast.File, *ast.TypeSpec)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok {
						f(file, ts)
					}
				}
			}
		}
	}
}

// imported returns the path of what a file imports under a name, below the module.
func imported(t *testing.T, file *ast.File, name string) string {
	t.Helper()
	for _, i := range file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		require.NoError(t, err)
		if i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(p) == name {
			return strings.TrimPrefix(p, modulePath+"/")
		}
	}
	return name
}
