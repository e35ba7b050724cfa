package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// madeImage is a suite's folder with the image of a build.
func madeImage(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache", "suite")
	im := &Image{Suite: "suite", Kernel: "6.1.0-1-amd64", Key: "k"}
	im.place(dir)
	require.NoError(t, os.MkdirAll(filepath.Dir(im.Vmlinuz), 0o755))
	require.NoError(t, os.WriteFile(im.Vmlinuz, []byte("kernel"), 0o644))
	require.NoError(t, os.WriteFile(im.Initrd, []byte("initramfs"), 0o644))
	require.NoError(t, writeImage(dir, im))
	return dir
}

// A cache that was copied is used where it is: the original may be gone, or have changed.
func TestImageMoves(t *testing.T) {
	dir := madeImage(t)
	moved := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.Rename(dir, moved))
	im, err := readImage(moved)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(moved, "initrd.cpio"), im.Initrd)
	require.Equal(t, filepath.Join(moved, "root", "boot", "vmlinuz-6.1.0-1-amd64"), im.Vmlinuz)
}

func TestImageMustBeWhole(t *testing.T) {
	for name, spoil := range map[string]func(im *Image) error{
		"no initramfs": func(im *Image) error { return os.Remove(im.Initrd) },
		"a part of it": func(im *Image) error { return os.Truncate(im.Initrd, 3) },
		"no kernel":    func(im *Image) error { return os.Remove(im.Vmlinuz) },
		"nothing describes it": func(im *Image) error {
			return os.Remove(filepath.Join(filepath.Dir(im.Initrd), imageFile))
		},
		"half of a description": func(im *Image) error {
			return os.Truncate(filepath.Join(filepath.Dir(im.Initrd), imageFile), 20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := madeImage(t)
			im, err := readImage(dir)
			require.NoError(t, err)
			require.NoError(t, spoil(im))
			_, err = readImage(dir)
			require.Error(t, err)
		})
	}
}

// Newer packages have the kernel beside its modules.
func TestFindKernel(t *testing.T) {
	set := packageSet{Packages: []string{
		"linux-image-7.2.12+deb14-amd64_7.2.12-1_amd64.deb", "linux-image-6.1.0-1-amd64_6.1.9-1_amd64.deb",
	}}
	for file, want := range map[string]Image{
		"boot/vmlinuz-6.1.0-1-amd64":                      {Kernel: "6.1.0-1-amd64", Version: "6.1.9-1"},
		"usr/lib/modules/7.2.12+deb14-amd64/vmlinuz":      {Kernel: "7.2.12+deb14-amd64", Version: "7.2.12-1"},
		"usr/lib/modules/7.2.12+deb14-amd64/not-a-kernel": {},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "root", file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		var im Image
		err := im.findKernel(filepath.Join(dir, "root"), set)
		if want.Kernel == "" {
			require.ErrorContains(t, err, "0 kernels")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, im)
		im.place(dir)
		require.Equal(t, path, im.Vmlinuz)
	}
}

func TestKernelName(t *testing.T) {
	for want, im := range map[string]Image{
		"6.1":           {Suite: "bookworm", Kernel: "6.1.0-50-amd64", Version: "6.1.176-1"},
		"6.1-170":       {Suite: "bookworm@6.1.0-47", Kernel: "6.1.0-47-amd64", Version: "6.1.170-3"},
		"6.12-85":       {Suite: "bookworm@6.12.85+deb12", Kernel: "6.12.85+deb12-amd64", Version: "6.12.85-1~bpo12+1"},
		"6.1-arm64":     {Suite: "bookworm-arm64", Kernel: "6.1.0-50-arm64", Version: "6.1.176-1"},
		"6.1-170-arm64": {Suite: "bookworm-arm64@6.1.0-47", Kernel: "6.1.0-47-arm64", Version: "6.1.170-3"},
	} {
		require.Equal(t, want, im.KernelName())
	}
}
