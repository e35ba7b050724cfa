package lab

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// readCPIO is an independent reader of the "newc" format.
func readCPIO(t *testing.T, b []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for off := 0; ; {
		h := string(b[off : off+110])
		if h[:6] != "070701" {
			t.Fatalf("offset %d: magic %q", off, h[:6])
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(h[6+8*i:14+8*i], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		size, nameLen, mode := field(6), field(11), field(1)
		name := string(b[off+110 : off+110+nameLen-1])
		off = (off + 110 + nameLen + 3) &^ 3
		if name == "TRAILER!!!" {
			return out
		}
		out[name] = fmt.Sprintf("%o %s", mode, b[off:off+size])
		off = (off + size + 3) &^ 3
	}
}

func TestCPIO(t *testing.T) {
	var buf bytes.Buffer
	c := newCPIO(&buf)
	c.file("/a/b/c", 0o755, []byte("hello"))
	c.symlink("a/l", "b/c")
	c.dir("a/b")                      // there already
	c.file("a/b/c", 0, []byte("new")) // the first one stays
	c.charDev("dev/null", 1, 3)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	got := readCPIO(t, buf.Bytes())
	want := map[string]string{"a": "40755 ", "a/b": "40755 ", "a/b/c": "100755 hello", "a/l": "120777 b/c",
		"dev": "40755 ", "dev/null": "20600 "}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %q, want %q", k, got[k], v)
		}
	}
	if !c.has("/a/b/c") || c.has("a/x") {
		t.Error("has")
	}
}

func TestAllDeps(t *testing.T) {
	deps := map[string][]string{"rxe": {"core", "udp"}, "udp": {"net"}, "core": {"net"}, "net": nil}
	if got := allDeps(deps, "rxe"); !slices.Equal(got, []string{"core", "udp", "net"}) {
		t.Fatal(got)
	}
	if got := moduleName("kernel/x/nvme-rdma.ko.xz"); got != "nvme_rdma" {
		t.Fatal(got)
	}
}
