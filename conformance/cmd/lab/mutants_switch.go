package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// All bugs of a package are compiled at once, each behind a switch, since the compiler and the
// linker take longer than most tests do. What cannot be written so, as another length of an array,
// is compiled by itself.

// piece is a part of the code that stands in a bug's place: a text, in which # is the number of the
// bug and $ the type of what it changes, or a part of the source.
type piece struct {
	text     string
	from, to int
}

// helpers is the file that a package gets for its switches.
const helpers = `package %s

import (
	mutantos "os"
	mutantconv "strconv"
	mutantsys "syscall"
)

// mutantNow is the bug that is on, and mutantReached has a byte for each that was come by.
var mutantNow, mutantReached = mutantStart()

func mutantStart() (int, []byte) {
	n, _ := mutantconv.Atoi(mutantos.Getenv("MUTANT"))
	f, err := mutantos.OpenFile(mutantos.Getenv("MUTANT_REACHED"), mutantos.O_RDWR, 0)
	if err != nil {
		return n, nil
	}
	defer f.Close()
	b, _ := mutantsys.Mmap(int(f.Fd()), 0, %d, mutantsys.PROT_READ|mutantsys.PROT_WRITE, mutantsys.MAP_SHARED)
	return n, b
}

func mutantOn(n int) bool {
	if mutantReached != nil {
		mutantReached[n] = 1
	}
	return n == mutantNow
}

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface{ mutantInteger | ~float32 | ~float64 }

func mutantNext[T mutantNumber](n int, v T) T {
	if mutantOn(n) {
		return v + 1
	}
	return v
}

func mutantStep[T mutantNumber](n int, v *T, up int) {
	if mutantOn(n) == (up == 1) {
		*v--
	} else {
		*v++
	}
}

func mutantAdd[T mutantNumber](n int, a, b T) T {
	if mutantOn(n) {
		return a - b
	}
	return a + b
}

func mutantSub[T mutantNumber](n int, a, b T) T {
	if mutantOn(n) {
		return a + b
	}
	return a - b
}

func mutantMul[T mutantNumber](n int, a, b T) T {
	if mutantOn(n) {
		return a + b
	}
	return a * b
}

func mutantAnd[T mutantInteger](n int, a, b T) T {
	if mutantOn(n) {
		return a | b
	}
	return a & b
}

func mutantOr[T mutantInteger](n int, a, b T) T {
	if mutantOn(n) {
		return a & b
	}
	return a | b
}

func mutantShl[T, S mutantInteger](n int, a T, b S) T {
	if mutantOn(n) {
		return a >> b
	}
	return a << b
}

func mutantShr[T, S mutantInteger](n int, a T, b S) T {
	if mutantOn(n) {
		return a << b
	}
	return a >> b
}
`

// most is how many bugs are compiled at once.
const most = 100

// switched is a binary expression that has another operator while its bug is on.
func switched(op, to token.Token, x, y piece) []piece {
	name := map[token.Token]string{
		token.ADD: "Add", token.SUB: "Sub", token.MUL: "Mul", token.AND: "And", token.OR: "Or",
		token.SHL: "Shl", token.SHR: "Shr",
	}[op]
	if name != "" {
		return []piece{{text: "mutant" + name + "$(#, "}, x, {text: ", "}, y, {text: ")"}}
	}
	return []piece{
		{text: "(mutantOn(#) && ("}, x, {text: " " + to.String() + " "}, y, {text: ") || !mutantOn(#) && ("},
		x, {text: " " + op.String() + " "}, y, {text: "))"},
	}
}

// checker says what compiles, which the compiler itself takes long for.
type checker struct {
	*pkg
	set     *token.FileSet
	imports types.Importer
	files   map[string]*ast.File
	// typeAt is the type of an expression, by its file and where it begins and ends, as that file
	// writes it.
	typeAt map[string]string
}

func newChecker(p *pkg, export map[string]string) (*checker, error) {
	c := &checker{pkg: p, set: token.NewFileSet(), files: map[string]*ast.File{}, typeAt: map[string]string{}}
	c.imports = importer.ForCompiler(c.set, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	for _, f := range p.GoFiles {
		name := filepath.Join(p.Dir, f)
		parsed, err := parser.ParseFile(c.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.files[name] = parsed
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if err := c.check(nil, info); err != nil {
		return nil, err
	}
	for e, t := range info.Types {
		if b, ok := t.Type.(*types.Basic); t.Type == nil || t.IsType() || ok && b.Info()&types.IsUntyped != 0 {
			continue
		}
		p, q := c.set.Position(e.Pos()), c.set.Position(e.End())
		if s := c.write(t.Type, c.files[p.Filename]); s != "" {
			c.typeAt[spot(p.Filename, p.Offset, q.Offset)] = s
		}
	}
	return c, nil
}

func spot(file string, from, to int) string { return fmt.Sprint(file, ":", from, ":", to) }

// write returns how a file writes a type, or nothing if it does not import what is needed.
func (c *checker) write(t types.Type, f *ast.File) string {
	can := true
	s := types.TypeString(t, func(p *types.Package) string {
		if p.Path() == c.ImportPath {
			return ""
		}
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); path == p.Path() {
				if i.Name != nil {
					return i.Name.Name
				}
				return p.Name()
			}
		}
		can = false
		return p.Name()
	})
	if !can {
		return ""
	}
	return s
}

// check says whether the package compiles with these files in the place of its own, or beside them.
func (c *checker) check(with map[string][]byte, info *types.Info) error {
	files := make([]*ast.File, 0, len(c.files)+1)
	for name, f := range c.files {
		if with[name] == nil {
			files = append(files, f)
		}
	}
	for name, src := range with {
		f, err := parser.ParseFile(c.set, name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: c.imports, Sizes: types.SizesFor("gc", "amd64")}
	_, err := conf.Check(c.ImportPath, c.set, files, info)
	return err
}

// compiles reports whether the package would with this bug.
func (c *checker) compiles(b *bug) bool {
	src, err := os.ReadFile(b.file)
	return err == nil && c.check(map[string][]byte{b.file: b.apply(src)}, nil) == nil
}

// choose splits the bugs into those that go behind a switch together and those that need a build of
// their own.
func (c *checker) choose(bugs []*bug) (together, alone []*bug) {
	for _, b := range bugs {
		if len(b.behind) != 0 && len(together) < most {
			if files, err := c.render(append(together[:len(together):len(together)], b), nil); err == nil &&
				c.check(files, nil) == nil {
				together = append(together, b)
				continue
			}
		}
		alone = append(alone, b)
	}
	return together, alone
}

// render returns the files of the package with the first bugs behind switches, numbered from 1, and
// marks where the functions of the others begin.
func (c *checker) render(together, alone []*bug) (map[string][]byte, error) {
	files := map[string][]byte{filepath.Join(c.Dir, "mutant_switches.go"): fmt.Appendf(nil, helpers, c.Name, pageSize)}
	sources := map[string]*sourceFile{}
	for i, b := range slices.Concat(together, alone) {
		s := sources[b.file]
		if s == nil {
			src, err := os.ReadFile(b.file)
			if err != nil {
				return nil, err
			}
			s = &sourceFile{checker: c, src: src}
			sources[b.file] = s
		}
		if i < len(together) {
			s.sites = append(s.sites, site{b.start, b.end, b.behind, i + 1})
		} else {
			s.sites = append(s.sites, site{b.body, b.body, []piece{{text: "_ = mutantOn(#); "}}, i + 1})
		}
	}
	for name, s := range sources {
		// Those that are within others come after them, and of two of the same code the one that
		// takes it apart.
		slices.SortStableFunc(s.sites, func(a, b site) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to),
				cmp.Compare(len(a.pieces), len(b.pieces)))
		})
		files[name] = []byte(s.text(name, 0, len(s.src), s.sites))
	}
	return files, nil
}

// pageSize is how much the file is of what was reached.
const pageSize = 4096

type site struct {
	from, to int
	pieces   []piece
	number   int
}

type sourceFile struct {
	*checker
	src   []byte
	sites []site
}

// text is the code between two places with the sites in it.
func (s *sourceFile) text(name string, from, to int, sites []site) string {
	var out strings.Builder
	at := from
	for i := 0; i < len(sites); i++ {
		x := sites[i]
		if x.from < at || x.to > to {
			continue // in one that is done, or not here
		}
		out.Write(s.src[at:x.from])
		for _, p := range x.pieces {
			if p.text == "" {
				out.WriteString(s.text(name, p.from, p.to, sites[i+1:]))
				continue
			}
			t := strings.ReplaceAll(p.text, "#", strconv.Itoa(x.number))
			generic := ""
			if u := s.typeAt[spot(name, x.from, x.to)]; u != "" {
				generic = "[" + u + "]"
			}
			out.WriteString(strings.ReplaceAll(t, "$", generic))
		}
		at = x.to
	}
	out.Write(s.src[at:to])
	return out.String()
}
