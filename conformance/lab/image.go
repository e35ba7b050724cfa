package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Suites are the Debian suites that checks run in unless told, oldest first. Bookworm has kernel
// 6.1, trixie 6.12.
var Suites = []string{"bookworm", "trixie"}

// Testing is Debian's next release, which the lab knows besides: its kernel is a later one, and
// from one month to the next another one.
const Testing = "forky"

// known are all suites that the lab knows.
func known() []string { return append(slices.Clone(Suites), Testing) }

// packagesOf are the packages of a guest.
func packagesOf(name string) []string {
	_, kernel, m := parseSuite(name)
	image := "linux-image-" // of the suite's newest kernel
	if kernel != "" {
		image += kernel + "-"
	}
	return append([]string{image + m.debian}, suitePackages...)
}

// suitePackages is what a guest's user space and the agent's build are made from.
var suitePackages = []string{
	"busybox-static", "dash", "rdma-core", "ibverbs-utils", "rdmacm-utils", "ibverbs-providers",
	"perftest", "qperf", "iperf3", "tcpdump", "ethtool", "iproute2", "libibverbs-dev", "librdmacm-dev", "libc6-dev",
}

// recipe changes whenever the way an image is made does, so that old caches are not
// taken for new ones.
const recipe = 5

// Image is what a guest boots. It is read-only once made.
type Image struct {
	Suite   string   `json:"suite"`
	Kernel  string   `json:"kernel"`  // release, such as "6.1.0-50-amd64"
	Version string   `json:"version"` // Debian version of the kernel, such as "6.1.176"
	Tools   []string `json:"tools"`   // programs in the guest's PATH
	Key     string   `json:"key"`     // hash of all that went in
	Bytes   int64    `json:"bytes"`   // length of the initramfs

	// Paths, which are not kept: a cache may be copied.
	Vmlinuz string `json:"-"`
	Initrd  string `json:"-"`
}

// place sets the paths of an image in a suite's folder.
func (im *Image) place(dir string) {
	im.Vmlinuz = filepath.Join(dir, "root", "boot", "vmlinuz-"+im.Kernel)
	if beside := filepath.Join(dir, "root", modulesDir, im.Kernel, "vmlinuz"); exists(beside) {
		im.Vmlinuz = beside
	}
	im.Initrd = filepath.Join(dir, "initrd.cpio")
}

// whole reports whether both files are there, and not cut short.
func (im *Image) whole() bool {
	_, err := os.Stat(im.Vmlinuz)
	st, errInitrd := os.Stat(im.Initrd)
	return err == nil && errInitrd == nil && st.Size() == im.Bytes
}

// KernelMajorMinor returns "6.1" for "6.1.0-50-amd64".
func (im *Image) KernelMajorMinor() string {
	p := strings.SplitN(im.Kernel, ".", 3)
	if len(p) < 2 {
		return im.Kernel
	}
	return p[0] + "." + p[1]
}

// KernelName is KernelMajorMinor, and "6.1-170" if the image has another kernel than its suite's
// newest: then, and in names of profiles, the third part of Version stands behind it. That of a
// machine other than amd64 ends with its name: "6.1-arm64".
func (im *Image) KernelName() string {
	name := im.KernelMajorMinor()
	_, kernel, m := parseSuite(im.Suite)
	if kernel != "" {
		third, _ := strings.CutPrefix(im.Version, name+".")
		if i := strings.IndexFunc(third, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			third = third[:i]
		}
		name += "-" + third
	}
	if m != amd64 {
		name += "-" + m.debian
	}
	return name
}

// Prepare makes the images of the suites named: it installs what this machine lacks,
// downloads, unpacks, builds. It needs network the first time only, so that it must
// run before Enter. Suites that cannot be had are reported in errs and left out.
func Prepare(ctx context.Context, suites []string, logf func(string, ...any)) (images []*Image, errs map[string]error) {
	errs = map[string]error{}
	failAll := func(err error) ([]*Image, map[string]error) {
		for _, s := range suites {
			errs[s] = err
		}
		return nil, errs
	}
	for _, s := range suites {
		if of, _, _ := parseSuite(s); !slices.Contains(known(), of) {
			return failAll(fmt.Errorf("lab: suite %q is none of %s", s, strings.Join(known(), ", ")))
		}
	}
	if runtime.GOARCH != "amd64" {
		return failAll(fmt.Errorf("lab: it is made for an amd64 machine, this one is %s", runtime.GOARCH))
	}
	cache, err := CacheDir()
	if err != nil {
		return failAll(err)
	}
	unlock, err := lockDir(ctx, cache)
	if err != nil {
		return failAll(err)
	}
	defer unlock()
	labds := map[*machine][]byte{}
	for _, s := range suites {
		_, _, m := parseSuite(s)
		if err := Install(ctx, m.hostTools(), logf); err != nil {
			return failAll(err)
		}
		if labds[m], err = buildLabd(ctx, cache, m); err != nil {
			return failAll(err)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range suites {
		wg.Go(func() {
			_, _, m := parseSuite(s)
			im, err := prepareSuite(ctx, filepath.Join(cache, s), s, labds[m], logf)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[s] = err
				return
			}
			images = append(images, im)
		})
	}
	wg.Wait()
	slices.SortFunc(images, func(a, b *Image) int {
		return slices.Index(suites, a.Suite) - slices.Index(suites, b.Suite)
	})
	return images, errs
}

// OpenImage returns a suite's image from the cache, as Prepare left it.
func OpenImage(suite string) (*Image, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	im, err := readImage(filepath.Join(cache, suite))
	if err != nil {
		return nil, fmt.Errorf("lab: no image of suite %s: %w", suite, err)
	}
	return im, nil
}

// imageFile is the name of the file that describes the image of a suite's folder. It is
// there only while the image is.
const imageFile = "image.json"

// readImage reads the image of a suite's folder.
func readImage(dir string) (*Image, error) {
	b, err := os.ReadFile(filepath.Join(dir, imageFile))
	if err != nil {
		return nil, err
	}
	im := new(Image)
	if err := json.Unmarshal(b, im); err != nil {
		return nil, err
	}
	im.place(dir)
	if !im.whole() {
		return nil, fmt.Errorf("lab: %s: the kernel or the initramfs is not as it was built", dir)
	}
	return im, nil
}

// writeImage says that the image is complete.
func writeImage(dir string, im *Image) error {
	st, err := os.Stat(im.Initrd)
	if err != nil {
		return err
	}
	im.Bytes = st.Size()
	b, err := json.MarshalIndent(im, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, imageFile), b, 0o644)
}

func prepareSuite(ctx context.Context, dir, suite string, labd []byte, logf func(string, ...any)) (*Image, error) {
	root := filepath.Join(dir, "root")
	set, err := ensureRoot(ctx, dir, root, suite, recipe, packagesOf(suite), logf)
	if err != nil {
		return nil, err
	}
	_, _, m := parseSuite(suite)
	agent, err := buildAgent(ctx, m, root, dir)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	fmt.Fprintln(h, recipe, suite, set.Packages)
	h.Write(labd)
	h.Write(agent)
	key := hex.EncodeToString(h.Sum(nil))
	if im, err := readImage(dir); err == nil && im.Key == key {
		return im, nil
	}
	logf("lab: building the initramfs of %s", suite)
	// Before the initramfs changes: what is left of an interrupted build must not pass for the
	// image of the build before.
	if err := os.Remove(filepath.Join(dir, imageFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	im := &Image{Suite: suite, Key: key}
	if err := im.findKernel(root, set); err != nil {
		return nil, err
	}
	im.place(dir)
	if err := im.buildInitrd(ctx, root, labd, agent); err != nil {
		return nil, err
	}
	return im, writeImage(dir, im)
}

// modulesDir is where packages put a kernel's modules; since forky the kernel, too.
const modulesDir = "usr/lib/modules"

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// writeFile replaces a file in one step.
func writeFile(path string, b []byte, perm os.FileMode) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, perm); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func (im *Image) findKernel(root string, set packageSet) error {
	var kernels []string
	for _, pattern := range []string{"boot/vmlinuz-*", modulesDir + "/*/vmlinuz"} {
		m, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		kernels = append(kernels, m...)
	}
	if len(kernels) != 1 {
		return fmt.Errorf("lab: %d kernels below %s, want 1", len(kernels), root)
	}
	var old bool
	if im.Kernel, old = strings.CutPrefix(filepath.Base(kernels[0]), "vmlinuz-"); !old {
		im.Kernel = filepath.Base(filepath.Dir(kernels[0]))
	}
	for _, p := range set.Packages {
		if v, ok := strings.CutPrefix(p, "linux-image-"+im.Kernel+"_"); ok {
			im.Version, _, _ = strings.Cut(v, "_")
		}
	}
	return nil
}

// buildLabd compiles the guest's init and returns its bytes.
func buildLabd(ctx context.Context, cache string, m *machine) ([]byte, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	out := filepath.Join(cache, "labd-"+m.debian)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o",
		out, "./conformance/lab/labd")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+m.debian, "GOFLAGS=-mod=readonly")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("lab: building labd: %w: %s", err, redact(tail(b, 2000)))
	}
	return os.ReadFile(out)
}
