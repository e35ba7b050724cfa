package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// bug is one change of a file.
type bug struct {
	file  string // path
	name  string // path to show
	fn    string // the function, with its receiver
	line  int
	kind  string
	start int // of the bytes that are replaced
	end   int
	with  string
	was   string
	// nth tells apart those of a function that look the same, from 1.
	nth int
	// body is where the body of the function begins.
	body int
	// behind is the code that has the bug only while it is switched on; nothing if there is none.
	behind []piece
}

func (b *bug) String() string {
	return fmt.Sprintf("%s:%d: %s", b.name, b.line, b.change())
}

func (b *bug) change() string {
	return fmt.Sprintf("%s: %s -> %s", b.kind, brief(b.was), brief(b.with))
}

// id names the bug without its line, which moves with every edit above it.
func (b *bug) id() string {
	s := b.name + " " + b.fn + ": " + b.change()
	if b.nth > 1 {
		s += " #" + strconv.Itoa(b.nth)
	}
	return s
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
	var fn *ast.FuncDecl
	seen := map[string]int{}
	add := func(kind string, from, to token.Pos, with string, behind ...piece) {
		p, q := fset.Position(from), fset.Position(to)
		b := bug{
			file: path, name: name, fn: funcName(fn), line: p.Line, kind: kind, start: p.Offset,
			end: q.Offset, with: with, was: string(src[p.Offset:q.Offset]),
			body: fset.Position(fn.Body.Lbrace).Offset + 1, behind: behind,
		}
		key := b.id()
		seen[key]++
		b.nth = seen[key]
		all = append(all, b)
	}
	code := func(n ast.Node) piece {
		return piece{from: fset.Position(n.Pos()).Offset, to: fset.Position(n.End()).Offset}
	}
	// unless is a statement that is left out while the bug is on, if it is one of a list.
	listed := statements(f)
	unless := func(n ast.Stmt) []piece {
		if !listed[n] {
			return nil
		}
		return []piece{{text: "if !mutantOn(#) { "}, code(n), {text: " }"}}
	}
	text := func(n ast.Node) string {
		return string(src[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset])
	}
	for _, d := range f.Decls {
		var ok bool
		if fn, ok = d.(*ast.FuncDecl); !ok || fn.Body == nil || texts[fn.Name.Name] {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if to, ok := operators[n.Op]; ok {
					add("operator", n.Pos(), n.End(), text(n.X)+" "+to.String()+" "+text(n.Y),
						switched(n.Op, to, code(n.X), code(n.Y))...)
				}
			case *ast.IfStmt:
				add("condition", n.Cond.Pos(), n.Cond.End(), "!("+text(n.Cond)+")",
					piece{text: "(mutantOn(#) != ("}, code(n.Cond), piece{text: "))"})
				add("condition", n.Cond.Pos(), n.Cond.End(), "false && ("+text(n.Cond)+")",
					piece{text: "(!mutantOn(#) && ("}, code(n.Cond), piece{text: "))"})
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					add("condition", n.Pos(), n.End(), text(n.X), piece{text: "(mutantOn(#) != ("}, code(n),
						piece{text: "))"})
				}
			case *ast.BasicLit:
				if v, err := strconv.ParseUint(n.Value, 0, 62); err == nil && n.Kind == token.INT {
					add("constant", n.Pos(), n.End(), strconv.FormatUint(v+1, 10),
						piece{text: "mutantNext$(#, "}, code(n), piece{text: ")"})
				}
			case *ast.Ident:
				if n.Name == "true" || n.Name == "false" {
					add("constant", n.Pos(), n.End(), strconv.FormatBool(n.Name == "false"),
						piece{text: "(mutantOn(#) != "}, code(n), piece{text: ")"})
				}
			case *ast.ExprStmt:
				if c, ok := n.X.(*ast.CallExpr); ok && !isPanic(c) {
					add("call", n.Pos(), n.End(), "", unless(n)...)
				}
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					add("assignment", n.Pos(), n.End(), "", unless(n)...)
				}
			case *ast.IncDecStmt:
				with := "++"
				if n.Tok == token.INC {
					with = "--"
				}
				add("assignment", n.Pos(), n.End(), text(n.X)+with, piece{text: "mutantStep(#, &"}, code(n.X),
					piece{text: map[token.Token]string{token.INC: ", 1)", token.DEC: ", 0)"}[n.Tok]})
			case *ast.BranchStmt:
				if n.Tok == token.CONTINUE && n.Label == nil {
					var behind []piece
					if listed[n] {
						behind = []piece{{text: "if mutantOn(#) { break }; "}, code(n)}
					}
					add("branch", n.Pos(), n.End(), "break", behind...)
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

// statements are those that are in a list, so that others can stand in their place.
func statements(f *ast.File) map[ast.Stmt]bool {
	in := map[ast.Stmt]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, s := range list {
			in[s] = true
		}
		return true
	})
	return in
}

// funcName is the name of a function, or of a method with its receiver, as (*QP).Post.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	star, t := "", fn.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		star, t = "*", p.X
	}
	switch x := t.(type) {
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return "(" + star + id.Name + ")." + fn.Name.Name
	}
	return fn.Name.Name
}

func isPanic(c *ast.CallExpr) bool {
	id, ok := c.Fun.(*ast.Ident)
	return ok && id.Name == "panic"
}

// fails reports whether a return gives back an error: nobody looks at the other values then.
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

// draw puts the bugs into an order that depends on the seed, in which the kinds take turns: there
// are many operators, and few branches. What is drawn first stays so when other code comes or goes.
func draw(all []bug, seed uint64) {
	rank := make(map[string]uint64, len(all))
	for i := range all {
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, seed, all[i].id())
		rank[all[i].id()] = mix(h.Sum64())
	}
	slices.SortStableFunc(all, func(a, b bug) int { return cmp.Compare(rank[a.id()], rank[b.id()]) })
	kinds := []string{"condition", "operator", "call", "assignment", "constant", "branch"}
	of := map[string][]bug{}
	for _, b := range all {
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

// mix spreads what FNV leaves alike in the upper bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
