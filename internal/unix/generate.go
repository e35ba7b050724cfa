//go:build ignore

// Generate writes names_linux.go and names_other.go: what the module uses of golang.org/x/sys/unix
// and of package syscall.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	self = `"github.com/goroce/goroce/internal/unix"`
	real = "golang.org/x/sys/unix"
)

// own are the names that the package declares by itself.
var own = []string{"Linux", "ErrLinux", "Errno", "Signal", "SetAttr", "SetGroup", "Owner", "Ethtool"}

// always are those that nothing but this package's own files name.
var always = []string{"ENOSYS", "SysProcAttr", "SysProcIDMap", "Credential"}

// fromSyscall are those that package unix has not.
var fromSyscall = []string{"SysProcAttr", "SysProcIDMap", "Credential", "RawConn"}

func main() {
	log.SetFlags(0)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		log.Fatal(err)
	}
	c := &build.Default
	c.GOROOT, c.GOOS, c.GOARCH, c.CgoEnabled = strings.TrimSpace(string(root)), "linux", "amd64", false
	used := slices.Clone(always)
	for name := range uses("../..") {
		if !slices.Contains(own, name) {
			used = append(used, name)
		}
	}
	slices.Sort(used)
	used = slices.Compact(used)

	imp := importer.ForCompiler(token.NewFileSet(), "source", nil)
	load := func(path string) *types.Package {
		p, err := imp.(types.ImporterFrom).ImportFrom(path, ".", 0)
		if err != nil {
			log.Fatal(err)
		}
		return p
	}
	g := generator{unix: load(real), sys: load("syscall"), types: map[string]bool{}}
	for i := 0; i < len(used); i++ { // a type brings those of its fields
		used = append(used, g.add(used[i], used)...)
	}
	g.write("names_linux.go", "linux && !portable", "\"syscall\"\n\n\tlinux \""+real+"\"", &g.linux)
	g.write("names_other.go", "!linux || portable", "\"syscall\"", &g.other)
}

// uses returns the names that the files below a folder use of this package.
func uses(root string) map[string]bool {
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == self }) {
			return nil
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "unix" {
					names[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	return names
}

// part is the declarations of one file.
type part struct{ consts, types, funcs bytes.Buffer }

type generator struct {
	unix, sys    *types.Package
	types        map[string]bool
	linux, other part
	wants        []string
}

// name is how a type is written here.
func (g *generator) name(p *types.Package) string {
	if p.Path() == real || p.Path() == "syscall" {
		return ""
	}
	return p.Name()
}

func (g *generator) str(t types.Type) string {
	ast.Inspect(must(parser.ParseExpr(types.TypeString(t, g.name))), func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && ast.IsExported(id.Name) {
			if g.unix.Scope().Lookup(id.Name) != nil || g.sys.Scope().Lookup(id.Name) != nil {
				g.wants = append(g.wants, id.Name)
			}
		}
		return true
	})
	return strings.ReplaceAll(types.TypeString(t, g.name), "cpuMask", "uint64")
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// add writes a name to both files, and returns those that it needs and are not there yet.
func (g *generator) add(name string, have []string) []string {
	g.wants = nil
	from, o := "linux", g.unix.Scope().Lookup(name)
	if o == nil || slices.Contains(fromSyscall, name) {
		from, o = "syscall", g.sys.Scope().Lookup(name)
	}
	if o == nil {
		log.Fatalf("neither %s nor syscall has %s", real, name)
	}
	switch o := o.(type) {
	case *types.Const:
		fmt.Fprintf(&g.linux.consts, "\t%s = %s.%s\n", name, from, name)
		g.constant(name, o)
	case *types.TypeName:
		fmt.Fprintf(&g.linux.types, "\t%s = %s.%s\n", name, from, name)
		g.typ(name, o)
	case *types.Func:
		g.function(from, name, o.Type().(*types.Signature))
	default:
		log.Fatalf("%s is a %T", name, o)
	}
	var more []string
	for _, w := range g.wants {
		if !slices.Contains(have, w) && !slices.Contains(more, w) && !slices.Contains(own, w) && w != name {
			more = append(more, w)
		}
	}
	return more
}

// constant writes one. Error numbers are those of the system where all have them.
func (g *generator) constant(name string, o *types.Const) {
	switch t := o.Type().String(); {
	case strings.HasSuffix(t, "syscall.Errno") &&
		!slices.Contains([]string{"EREMOTEIO", "EHWPOISON", "ENONET", "ECOMM", "ERFKILL", "ENOTUNIQ"}, name):
		fmt.Fprintf(&g.other.consts, "\t%s = syscall.%s\n", name, name)
	case strings.HasSuffix(t, "syscall.Errno"):
		v, _ := constant.Int64Val(o.Val())
		fmt.Fprintf(&g.other.consts, "\t%s = Errno(%#x)\n", name, 1<<28+v) // none of this system's
	case strings.HasSuffix(t, "syscall.Signal"):
		fmt.Fprintf(&g.other.consts, "\t%s = Signal(%s)\n", name, o.Val())
	default:
		fmt.Fprintf(&g.other.consts, "\t%s = %s\n", name, o.Val().ExactString())
	}
}

func (g *generator) typ(name string, o *types.TypeName) {
	w := &g.other.types
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if !ok {
		log.Fatalf("%s: %s", name, o.Type())
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		fmt.Fprintf(w, "\t%s struct {\n", name)
		before := ""
		for f := range u.Fields() { // those of one type in a line
			switch t := g.str(f.Type()); {
			case !f.Exported():
			case t == before:
				w.Truncate(w.Len() - len(t) - 2)
				fmt.Fprintf(w, ", %s %s\n", f.Name(), t)
			default:
				fmt.Fprintf(w, "\t\t%s %s\n", f.Name(), t)
				before = t
			}
		}
		fmt.Fprintln(w, "\t}")
	case *types.Interface:
		fmt.Fprintf(w, "\t%s = any\n", name)
		return
	default:
		fmt.Fprintf(w, "\t%s %s\n", name, g.str(u))
	}
	for m := range named.Methods() {
		if m.Exported() {
			recv := name
			if _, ptr := m.Signature().Recv().Type().(*types.Pointer); ptr {
				recv = "*" + name
			}
			fmt.Fprintf(&g.other.funcs, "func (%s) %s\n", recv, g.stub(m.Name(), m.Signature()))
		}
	}
}

// stub is a function that only says that it is not there.
func (g *generator) stub(name string, s *types.Signature) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s(%s)", name, g.params(s, false))
	var results, values []string
	for r := range s.Results().Variables() {
		t := g.str(r.Type())
		results = append(results, t)
		switch {
		case t == "error":
			values = append(values, "ErrLinux")
		case t == "Errno":
			values = append(values, "ENOSYS")
		case t == "string":
			values = append(values, `""`)
		case t == "bool":
			values = append(values, "false")
		case strings.HasPrefix(t, "*") || strings.HasPrefix(t, "[]") || t == "Sockaddr":
			values = append(values, "nil")
		default:
			if _, basic := r.Type().Underlying().(*types.Basic); !basic {
				values = append(values, t+"{}")
			} else if name == "Socket" || name == "Open" {
				values = append(values, "-1")
			} else {
				values = append(values, "0")
			}
		}
	}
	fmt.Fprintf(&b, " (%s) { return %s }", strings.Join(results, ", "), strings.Join(values, ", "))
	return b.String()
}

func (g *generator) params(s *types.Signature, names bool) string {
	var ps []string
	for i := range s.Params().Len() {
		p := s.Params().At(i)
		t := g.str(p.Type())
		if s.Variadic() && i == s.Params().Len()-1 {
			t = "..." + strings.TrimPrefix(t, "[]")
		}
		if names {
			t = fmt.Sprintf("a%d %s", i, t)
		}
		ps = append(ps, t)
	}
	return strings.Join(ps, ", ")
}

func (g *generator) function(from, name string, s *types.Signature) {
	var args, results []string
	for i := range s.Params().Len() {
		args = append(args, fmt.Sprintf("a%d", i))
	}
	if s.Variadic() {
		args[len(args)-1] += "..."
	}
	for r := range s.Results().Variables() {
		results = append(results, g.str(r.Type()))
	}
	ret := "return "
	if len(results) == 0 {
		ret = ""
	}
	if strings.HasSuffix(strings.TrimSuffix(name, "6"), "yscall") {
		// What a pointer among the arguments was made of stays where it is: the compiler sees to
		// that by itself only where the system's function is called.
		fmt.Fprintln(&g.linux.funcs, "//go:uintptrescapes")
	}
	fmt.Fprintf(&g.linux.funcs, "func %s(%s) (%s) { %s%s.%s(%s) }\n", name, g.params(s, true),
		strings.Join(results, ", "), ret, from, name, strings.Join(args, ", "))
	switch name {
	case "ByteSliceToString", "Getpid":
		return // see other.go
	}
	fmt.Fprintf(&g.other.funcs, "func %s\n", g.stub(name, s))
}

func (g *generator) write(file, tag, imports string, p *part) {
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"//go:build %s\n\n// Code generated by generate.go; DO NOT EDIT.\n\npackage unix\n\nimport (\n\t%s\n)\n\n", tag,
		imports)
	fmt.Fprintf(&b, "const (\n%s)\n\ntype (\n%s)\n\n%s", &p.consts, &p.types, &p.funcs)
	out, err := format.Source(b.Bytes())
	if err != nil {
		os.WriteFile(file, b.Bytes(), 0o644)
		log.Fatal(err)
	}
	if err := os.WriteFile(file, out, 0o644); err != nil {
		log.Fatal(err)
	}
}
