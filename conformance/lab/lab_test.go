package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// guestEnv asks for the tests that boot a guest. They need QEMU, a network or a filled
// cache, and half a minute; "make interop" exercises the same things.
const guestEnv = "GOROCE_LAB_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(guestEnv) != "" {
		Enter(func(ctx context.Context) error {
			_, errs := Prepare(ctx, Suites[:1], func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) })
			return errs[Suites[0]]
		})
	}
	os.Exit(m.Run())
}

func TestNewOutside(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		t.Skipf("%s is set: this process is already in the lab's namespaces, and New would work", insideEnv)
	}
	if _, err := New(Config{}); !errors.Is(err, ErrOutside) {
		t.Fatalf("%v, want ErrOutside", err)
	}
}

func TestGuest(t *testing.T) {
	if os.Getenv(guestEnv) == "" {
		t.Skipf("boots a guest; set %s=1 to run it", guestEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l, err := New(Config{Out: t.TempDir(), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	im, err := OpenImage(Suites[0])
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Boot(ctx, GuestConfig{Name: "g", Image: im})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("run", func(t *testing.T) {
		out, err := g.Run(ctx, "uname", "-r")
		if err != nil || strings.TrimSpace(out) != im.Kernel {
			t.Fatalf("%q, %v", out, err)
		}
	})
	t.Run("exit status and output", func(t *testing.T) {
		_, err := g.Run(ctx, "sh", "-c", "echo why >&2; exit 7")
		var ee *ExitError
		if !errors.As(err, &ee) || ee.Code != 7 || !strings.Contains(ee.Output, "why") {
			t.Fatalf("%v", err)
		}
		if _, err := g.Run(ctx, "/no/such/program"); err == nil {
			t.Fatal("a program that is not there ran")
		}
	})
	t.Run("standard input", func(t *testing.T) {
		in := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // more than a frame
		p, err := g.Start(ctx, Cmd{Argv: []string{"wc", "-c"}, Stdin: bytes.NewReader(in)})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil || strings.TrimSpace(p.Stdout()) != fmt.Sprint(len(in)) {
			t.Fatalf("%q, %v", p.Stdout(), err)
		}
	})
	t.Run("files", func(t *testing.T) {
		want := bytes.Repeat([]byte{0, 1, 2, 250, 255}, 1<<18)
		if err := g.Put(ctx, "/tmp/a/b", 0o600, bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := g.Get(ctx, "/tmp/a/b", &got); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%d bytes, %v", got.Len(), err)
		}
		if err := g.Get(ctx, "/tmp/none", &got); err == nil {
			t.Fatal("a file that is not there was got")
		}
	})
	t.Run("kill", func(t *testing.T) {
		p, err := g.Start(ctx, Cmd{Argv: []string{"sh", "-c", "echo up; sleep 1000 & wait"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.WaitOutput(ctx, "up"); err != nil {
			t.Fatal(err)
		}
		p.Kill()
		var ee *ExitError
		if err := p.Wait(); !errors.As(err, &ee) || ee.Signal != 9 {
			t.Fatalf("%v", err)
		}
		out, err := g.Run(ctx, "ps")
		if err != nil || strings.Contains(out, "sleep 1000") {
			t.Fatalf("the child lives: %v\n%s", err, out)
		}
	})
	t.Run("context", func(t *testing.T) {
		short, cancel := context.WithCancel(ctx)
		p, err := g.Start(short, Cmd{Argv: []string{"sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := p.Wait(); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
	})
	t.Run("rxe", func(t *testing.T) {
		out, err := g.Run(ctx, "rdma", "link")
		if err != nil || !strings.Contains(out, "state ACTIVE") {
			t.Fatalf("%q, %v", out, err)
		}
	})
}

func TestPrepareUnknownSuite(t *testing.T) {
	images, errs := Prepare(t.Context(), []string{Suites[0], "nosuch"}, t.Logf)
	if len(images) != 0 || errs["nosuch"] == nil {
		t.Fatalf("%v, %v", images, errs)
	}
}
