package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// bug is one change of a file.
type bug struct {
	file  string // path
	name  string // path to show
	line  int
	kind  string
	start int // of the bytes that are replaced
	end   int
	with  string
	was   string
}

func (b *bug) String() string {
	return fmt.Sprintf("%s:%d: %s: %s -> %s", b.name, b.line, b.kind, brief(b.was), brief(b.with))
}

// brief shortens code to a line.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "nothing"
	}
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return s
}

// apply returns src with the bug in it.
func (b *bug) apply(src []byte) []byte {
	out := append([]byte(nil), src[:b.start]...)
	out = append(out, b.with...)
	return append(out, src[b.end:]...)
}

// operators are what a binary operator is replaced with.
var operators = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.SHL: token.SHR, token.SHR: token.SHL,
	token.AND: token.OR, token.OR: token.AND, token.MUL: token.ADD,
}

// texts are functions that make words for people: no test need hold each.
var texts = map[string]bool{"String": true, "Error": true, "GoString": true, "Format": true, "history": true}

// bugsOf returns every bug that can be planted in a file, in their order there.
func bugsOf(path, name string) ([]bug, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []bug
	add := func(kind string, from, to token.Pos, with string) {
		p, q := fset.Position(from), fset.Position(to)
		all = append(all, bug{
			file: path, name: name, line: p.Line, kind: kind,
			start: p.Offset, end: q.Offset, with: with, was: string(src[p.Offset:q.Offset]),
		})
	}
	text := func(n ast.Node) string {
		return string(src[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset])
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || texts[fn.Name.Name] {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if to, ok := operators[n.Op]; ok {
					add("operator", n.Pos(), n.End(), text(n.X)+" "+to.String()+" "+text(n.Y))
				}
			case *ast.IfStmt:
				add("condition", n.Cond.Pos(), n.Cond.End(), "!("+text(n.Cond)+")")
				add("condition", n.Cond.Pos(), n.Cond.End(), "false && ("+text(n.Cond)+")")
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					add("condition", n.Pos(), n.End(), text(n.X))
				}
			case *ast.BasicLit:
				if v, err := strconv.ParseUint(n.Value, 0, 62); err == nil && n.Kind == token.INT {
					add("constant", n.Pos(), n.End(), strconv.FormatUint(v+1, 10))
				}
			case *ast.Ident:
				if n.Name == "true" || n.Name == "false" {
					add("constant", n.Pos(), n.End(), strconv.FormatBool(n.Name == "false"))
				}
			case *ast.ExprStmt:
				if c, ok := n.X.(*ast.CallExpr); ok && !isPanic(c) {
					add("call", n.Pos(), n.End(), "")
				}
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					add("assignment", n.Pos(), n.End(), "")
				}
			case *ast.IncDecStmt:
				with := "++"
				if n.Tok == token.INC {
					with = "--"
				}
				add("assignment", n.Pos(), n.End(), text(n.X)+with)
			case *ast.BranchStmt:
				if n.Tok == token.CONTINUE && n.Label == nil {
					add("branch", n.Pos(), n.End(), "break")
				}
			case *ast.ReturnStmt:
				return !fails(n)
			case *ast.CallExpr:
				return !isPanic(n) && !isText(n)
			}
			return true
		})
	}
	return all, nil
}

func isPanic(c *ast.CallExpr) bool {
	id, ok := c.Fun.(*ast.Ident)
	return ok && id.Name == "panic"
}

// fails reports whether a return gives back an error: nobody looks at the other
// values then.
func fails(r *ast.ReturnStmt) bool {
	if len(r.Results) < 2 {
		return false
	}
	switch last := r.Results[len(r.Results)-1].(type) {
	case *ast.Ident:
		return last.Name == "err"
	case *ast.CallExpr:
		return isText(last)
	}
	return false
}

// isText reports whether a call only makes a text for people.
func isText(c *ast.CallExpr) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && (pkg.Name == "fmt" || pkg.Name == "errors")
}

// bugs returns every bug that can be planted in the package, file by file.
func (p *pkg) bugs() ([]bug, error) {
	var all []bug
	for _, f := range p.GoFiles {
		name := filepath.Join(strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), f)
		found, err := bugsOf(filepath.Join(p.Dir, f), name)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// draw puts the bugs into an order that depends on the seed and the package, in
// which the kinds take turns: there are many operators, and few branches.
func draw(all []bug, seed uint64, path string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(path))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var kinds []string
	of := map[string][]bug{}
	for _, b := range all {
		if of[b.kind] == nil {
			kinds = append(kinds, b.kind)
		}
		of[b.kind] = append(of[b.kind], b)
	}
	for i := 0; i < len(all); {
		for _, k := range kinds {
			if l := of[k]; len(l) != 0 {
				all[i], of[k] = l[0], l[1:]
				i++
			}
		}
	}
}
