package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
)

const modulePath = "github.com/goroce/goroce"

// layers is the import order: a folder may import the folders before it and, inside its own tree,
// itself. cmd has conformance's checks as a tool. bench comes last: it measures in the guests that
// conformance boots. internal is what tests and measurements share: the tests of any folder may
// import it.
var layers = map[string]int{"ib": 0, "mem": 1, "transport": 2, "internal": 2, "roce": 3, "conformance": 4,
	"cmd": 5, "bench": 6}

// rooms is the order inside roce: a package may import those before it, and what is below
// its own folder. The packages of roce/link are of one rank; tests may import all.
var rooms = []string{
	"roce/pcap", "roce/layers", "roce/analyse", "roce/internal/processes", "roce/internal/rtnl",
	"roce/internal/slots", "roce/link", "roce/internal/shard", "roce/internal/access",
	"roce/verbs", "roce/internal/everyaddr", "roce/rdmacm", "roce/stat", "roce", "roce/rsocket", "roce/auth",
	"roce/metrics", "roce/prometheus", "roce/analyse/stage",
}

// room returns the place of a package of roce in the order; -1 for one that is not in it.
func room(pkg string) int {
	best := -1
	for i, r := range rooms {
		if pkg == r || strings.HasPrefix(pkg, r+"/") && (best < 0 || len(r) > len(rooms[best])) {
			best = i
		}
	}
	return best
}

// sansIO are the folders that never touch the world outside: no sockets, no
// files, no clock, no goroutine, no log, no randomness but what they are given.
var sansIO = []string{"ib", "mem", "transport", "roce/rdmacm/cm", "roce/pcap", "roce/analyse"}

// bannedImports are refused in the sansIO folders. Entries that end in a slash
// ban everything below.
var bannedImports = []string{
	"C", "log", "log/", "os", "os/", "syscall/", "net", "net/", "golang.org/x/sys/", "golang.org/x/net/",
	"github.com/mdlayher/", "github.com/cilium/", "github.com/google/gopacket/", "github.com/stretchr/",
}

// allowedImports are the exceptions from bannedImports. Of syscall see bannedNames.
var allowedImports = []string{"net/netip", "syscall"}

// bannedNames are refused in the sansIO folders: package, and the only names
// of it that may be used; or, after a "-", the names that may not.
var bannedNames = map[string]struct {
	only, not []string
}{
	// The clock is passed in; durations and their constants are fine.
	"time": {not: []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer",
		"NewTicker", "Timer", "Ticker"}},
	// Generators that the caller seeds are fine, the global ones are not.
	"math/rand":    {only: []string{"New", "NewSource", "Rand", "Source", "Source64"}},
	"math/rand/v2": {only: []string{"New", "NewPCG", "NewChaCha8", "Rand", "Source", "PCG", "ChaCha8"}},
	// Randomness for keys comes in as an io.Reader.
	"crypto/rand": {only: []string{}},
	// Printing to the standard streams is output.
	"fmt": {not: []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"}},
	// An error number is no call: wrong arguments match it, whichever function was given them.
	"syscall": {only: []string{"EINVAL"}},
	"runtime": {not: []string{"SetFinalizer", "AddCleanup", "Gosched", "GC"}},
}

// confined are the modules that few folders import: the rest of the tree, tests included,
// speaks those folders' language.
var confined = map[string][]string{
	"github.com/google/gopacket":  {"internal/capture", "roce/layers"},
	"github.com/mdlayher/netlink": {"roce/internal/rtnl"},
}

// library is what programs import, and what it rests on: it has options, and no environment
// variables, which would reach past the program that calls it.
var library = []string{"ib", "mem", "transport", "roce", "internal"}

// envNames are refused there, of envPackages.
var (
	envPackages = []string{"os", "syscall", "golang.org/x/sys/unix", modulePath + "/internal/unix"}
	envNames    = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv"}
)

// breach is one violation of the layout.
type breach struct {
	pos  token.Position
	what string
}

func (b breach) String() string { return fmt.Sprintf("%s: %s", b.pos, b.what) }

// checkFile returns the breaches of one file. name is its path below the
// repository's root, with slashes.
func checkFile(fset *token.FileSet, name string, file *ast.File) (found []breach) {
	folder, _, _ := strings.Cut(name, "/")
	layer, inLayers := layers[folder]
	isTest := strings.HasSuffix(name, "_test.go")
	restricted := isSansIO(name) && !isTest
	report := func(n ast.Node, format string, args ...any) {
		found = append(found, breach{fset.Position(n.Pos()), fmt.Sprintf(format, args...)})
	}
	imported := map[string]string{} // local name to path
	for _, spec := range file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			report(spec, "import path %s", spec.Path.Value)
			continue
		}
		local := path.Base(target)
		if local == "v2" {
			local = path.Base(path.Dir(target))
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imported[local] = target
		if own, ok := strings.CutPrefix(target, modulePath+"/"); ok && inLayers {
			other, _, _ := strings.Cut(own, "/")
			shared := isTest && other == "internal"
			if l, known := layers[other]; other != folder && !shared && (!known || l >= layer) {
				report(spec, "%s must not import %s", folder, own)
			}
			from := path.Dir(name)
			if !isTest && own == "transport" && (within(from, "roce/link") || within(from, "roce/internal/slots")) {
				report(spec, "%s must not import the engine: transport/edge is what a link needs", from)
			}
			if folder == "roce" && other == "roce" && !isTest && room(own) > room(from) &&
				!strings.HasPrefix(own, from+"/cm") {
				report(spec, "%s must not import %s", from, own)
			}
		}
		for module, homes := range confined {
			if within(target, module) && !slices.Contains(homes, path.Dir(name)) {
				report(spec, "only %s imports %s", strings.Join(homes, " and "), module)
			}
		}
		// cmd/verbs is a module of its own whose one purpose is to speak with C.
		if target == "unsafe" && !strings.HasSuffix(strings.TrimSuffix(name, ".go"), "_unsafe") && !isTest &&
			!within(name, "cmd/verbs") {
			report(spec, "unsafe outside of a *_unsafe.go file")
		}
		if local == "." && slices.Contains(library, folder) && !isTest && !restricted &&
			slices.Contains(envPackages, target) {
			report(spec, "%s must not dot-import %s", folder, target)
		}
		if target == "C" && !within(name, "cmd/verbs") {
			report(spec, "cgo outside of cmd/verbs")
		}
		if !restricted {
			continue
		}
		if isBanned(target) {
			report(spec, "%s must not import %s", folder, target)
		}
		if _, named := bannedNames[target]; named && local == "." {
			report(spec, "%s must not dot-import %s", folder, target)
		}
	}
	if slices.Contains(library, folder) && !isTest {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(envNames, s.Sel.Name) {
				if id, ok := s.X.(*ast.Ident); ok && slices.Contains(envPackages, imported[id.Name]) {
					report(n, "%s must not use the environment: %s", folder, s.Sel.Name)
				}
			}
			return true
		})
	}
	if !restricted {
		return found
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n, "%s must not start goroutines", folder)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				report(n, "%s must not print", folder)
			}
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			rule, ok := bannedNames[imported[id.Name]]
			if !ok {
				return true
			}
			if slices.Contains(rule.not, n.Sel.Name) || rule.only != nil && !slices.Contains(rule.only, n.Sel.Name) {
				report(n, "%s must not use %s.%s", folder, imported[id.Name], n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// isSansIO reports whether a file is in one of the folders of sansIO, or below. The stage on which
// the analyser is tested has devices and a simulated network.
func isSansIO(name string) bool {
	if strings.HasPrefix(name, "roce/analyse/stage/") {
		return false
	}
	return slices.ContainsFunc(sansIO, func(folder string) bool { return strings.HasPrefix(name, folder+"/") })
}

func isBanned(target string) bool {
	if slices.Contains(allowedImports, target) {
		return false
	}
	return slices.ContainsFunc(bannedImports, func(b string) bool {
		return target == b || strings.HasSuffix(b, "/") && strings.HasPrefix(target, b)
	})
}

// within reports whether a path is that of the root or below it.
func within(target, root string) bool { return target == root || strings.HasPrefix(target, root+"/") }

// TestLayout holds the import order and the sans-IO rule over the source tree,
// for every platform and build tag.
func TestLayout(t *testing.T) {
	seeds.Long(t)
	root := ".."
	files := map[string]int{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if base := d.Name(); name != "." && (base == "testdata" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		folder, _, below := strings.Cut(name, "/")
		if _, known := layers[folder]; !known || !below {
			t.Errorf("%s: Go code outside of the folders of the layout", name)
			return nil
		}
		files[folder]++
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, b := range checkFile(fset, name, parsed) {
			t.Error(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files["ib"] == 0 {
		t.Error("no file of ib was seen: the walk is wrong")
	}
	t.Log("files seen:", files)
}

// TestLayoutBreaches makes sure that each rule can fail.
func TestLayoutBreaches(t *testing.T) {
	for _, c := range []struct {
		name, source string
		breaches     int
	}{
		{"ib/a.go", `import "net/netip"; var _ netip.Addr`, 0},
		{"ib/a.go", `import "net"; var _ net.IP`, 1},
		{"ib/a.go", `import "github.com/goroce/goroce/mem"`, 1},
		{"mem/a.go", `import "github.com/goroce/goroce/ib"`, 0},
		{"mem/a.go", `import "github.com/goroce/goroce/transport"`, 1},
		{"transport/cc/a.go", `import "github.com/goroce/goroce/transport"`, 0},
		{"transport/cc/a.go", `import "github.com/goroce/goroce/roce/rdmacm/cm"`, 1},
		{"roce/a.go", `import "github.com/goroce/goroce/cmd/roce"`, 1},
		{"roce/a.go", `import ("net"; "os"; "time"); func f() { go f(); time.Now() }`, 0},
		{"conformance/a.go", `import "github.com/goroce/goroce/bench"`, 1},
		{"conformance/a.go", `import "github.com/goroce/goroce/cmd/internal/explain"`, 1},
		{"cmd/internal/conform/a.go", `import "github.com/goroce/goroce/conformance/conform"`, 0},
		{"roce/a.go", `import "github.com/goroce/goroce/elsewhere"`, 1},
		{"roce/a.go", `import "github.com/goroce/goroce/internal/netns"`, 0},
		{"transport/a.go", `import "github.com/goroce/goroce/internal/netns"`, 1},
		{"internal/capture/a.go",
			`import "github.com/google/gopacket"; import _ "github.com/google/gopacket/layers"`, 0},
		{"internal/netns/a_test.go", `import _ "github.com/google/gopacket/layers"`, 1},
		{"roce/link/linktest/a.go", `import "github.com/google/gopacket"`, 1},
		{"roce/layers/a.go", `import "github.com/google/gopacket"`, 0},
		{"roce/pcap/a.go", `import "github.com/google/gopacket/pcapgo"`, 2},
		{"roce/analyse/a.go", `import "time"; var _ = time.Now()`, 1},
		{"roce/analyse/a.go", `import "github.com/goroce/goroce/roce/link"`, 1},
		{"cmd/internal/explain/a.go", `import "github.com/goroce/goroce/roce/analyse"`, 0},
		{"ib/a_test.go", `import "github.com/google/gopacket/pcapgo"`, 1},
		{"roce/internal/rtnl/a.go", `import "github.com/mdlayher/netlink"`, 0},
		{"roce/rdmacm/cm/a.go", `import "os"`, 1},
		{"roce/rdmacm/cm/a.go", `func f() { go f() }`, 1},
		{"roce/rdmacm/a.go", `import "os"`, 0},
		{"roce/link/udp/a.go", `import "github.com/mdlayher/netlink"`, 1},
		{"roce/verbs/a.go", `import "github.com/goroce/goroce/roce"`, 1},
		{"roce/verbs/a.go", `import "github.com/goroce/goroce/roce/rdmacm"`, 1},
		{"roce/verbs/a_test.go", `import "github.com/goroce/goroce/roce/rdmacm"`, 0},
		{"roce/rdmacm/a.go",
			`import ("github.com/goroce/goroce/roce/verbs"; "github.com/goroce/goroce/roce/rdmacm/cm")`, 0},
		{"roce/rdmacm/cm/a.go", `import "os"`, 1},
		{"roce/rdmacm/cm/a.go", `func f() { go f() }`, 1},
		{"roce/rdmacm/a.go", `import "os"`, 0},
		{"roce/link/udp/a.go", `import "github.com/goroce/goroce/roce/internal/shard"`, 1},
		{"roce/internal/shard/a.go", `import "github.com/goroce/goroce/roce/link"`, 0},
		{"roce/internal/shard/a.go", `import "github.com/goroce/goroce/roce/verbs"`, 1},
		{"roce/rsocket/a.go", `import "github.com/goroce/goroce/roce/verbs"`, 0},
		{"ib/a_test.go", `import "os"; func f() { go f() }`, 0},
		{"ib/a_test.go", `import "github.com/goroce/goroce/mem"`, 1},
		{"transport/a.go", `import "os"`, 1},
		{"transport/a.go", `import "log/slog"`, 1},
		{"transport/a.go", `import "golang.org/x/sys/unix"`, 1},
		{"transport/a.go", `import "github.com/goroce/goroce/internal/unix"`, 1},
		{"transport/a.go", `import "syscall"; var _ = syscall.EINVAL`, 0},
		{"transport/a.go", `import "syscall"; var _ = syscall.Getpid()`, 1},
		{"transport/a.go", `import . "syscall"`, 1},
		{"transport/a.go", `import "time"; var _ = time.Second`, 0},
		{"transport/a.go", `import "time"; var _ = time.Now()`, 1},
		{"transport/a.go", `import clock "time"; var now = clock.Now`, 1},
		{"transport/a.go", `import . "time"`, 1},
		{"transport/a.go", `func f() { go f() }`, 1},
		{"transport/a.go", `import "math/rand/v2"; var _ = rand.Uint32()`, 1},
		{"transport/a.go", `import "math/rand/v2"; var _ = rand.New(rand.NewPCG(1, 2))`, 0},
		{"transport/a.go", `import "math/rand"; var _ = rand.Int()`, 1},
		{"mem/a.go", `import "crypto/rand"; var _ = rand.Reader`, 1},
		{"mem/a.go", `import "fmt"; func f() { fmt.Println() }`, 1},
		{"mem/a.go", `func f() { println() }`, 1},
		{"mem/a.go", `import "unsafe"; var _ unsafe.Pointer`, 1},
		{"mem/a_unsafe.go", `import "unsafe"; var _ unsafe.Pointer`, 0},
		{"cmd/verbs/core/a.go", `import ("C"; "unsafe")`, 0},
		{"cmd/roce/a.go", `import ("C"; "unsafe")`, 2},
		{"roce/internal/shard/a.go", `import "os"; var n = os.Getenv("N")`, 1},
		{"roce/link/udp/a.go", `import "golang.org/x/sys/unix"; var n, _ = unix.Getenv("N")`, 1},
		{"internal/core/a.go", `import sys "syscall"; var get = sys.Environ`, 1},
		{"roce/a.go", `import . "os"`, 1},
		{"roce/a.go", `import "os"; var n = os.Getpid()`, 0},
		{"roce/a_test.go", `import "os"; var n = os.Getenv("N")`, 0},
		{"conformance/lab/a.go", `import "os"; var n = os.Getenv("N")`, 0},
		{"cmd/roce/a.go", `import "os"; var n = os.Getenv("N")`, 0},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, c.name, "package p; "+c.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found := checkFile(fset, c.name, file); len(found) != c.breaches {
			t.Errorf("%s with %s: %v, want %d breaches", c.name, c.source, found, c.breaches)
		}
	}
}

// twoOfAName are the packages that share a name with another one, and what it stands for in both.
// A command may be called as the library that it puts on the command line.
var twoOfAName = map[string]string{
	"conform": "the checks of a peer, and the command that runs them",
	"rdmacm":  "connections of librdmacm, and the tools of others on them",
	"report":  "tables and charts, and the report of the bench that is made of them",
}

// A name of a package means one thing.
func TestOneNameOnePackage(t *testing.T) {
	folders := map[string][]string{}
	for pkg := range packages(sources(t, false)) {
		name := path.Base(pkg)
		if path.Base(path.Dir(pkg)) == "cmd" {
			continue // a program, called main
		}
		folders[name] = append(folders[name], pkg)
	}
	for name, of := range folders {
		if len(of) > 1 && twoOfAName[name] == "" {
			t.Errorf("package %s is in %q: let each name say what it is", name, of)
		}
	}
	for name := range twoOfAName {
		if len(folders[name]) < 2 {
			t.Errorf("package %s is excused, but no longer twice there", name)
		}
	}
}
