package run

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// stage is a system with libraries and a program in a folder of the test's.
type stage struct {
	*system
	dir     string
	program string
	ran     bool
	path    string
	argv    []string
	vars    *environ
}

var errRan = errors.New("it ran")

func newStage(t *testing.T, environ ...string) *stage {
	dir := t.TempDir()
	fakeLibraries(t, filepath.Join(dir, "verbs"))
	s := &stage{dir: dir, program: program{interp: glibcLoader}.write(t, filepath.Join(dir, "program"))}
	s.system = &system{
		environ: environ, self: filepath.Join(dir, "roce"), lookPath: lookPath, available: available,
		who: identity{uid: os.Getuid(), gid: os.Getgid(), realUID: os.Getuid(), realGID: os.Getgid()},
		exec: func(path string, argv, environ []string) error {
			s.ran, s.path, s.argv, s.vars = true, path, argv, parseEnviron(environ)
			return errRan
		},
	}
	return s
}

func (s *stage) run(t *testing.T, args ...string) error {
	t.Helper()
	out := &toolcheck.Output{}
	err := run(t.Context(), &tool.Env{Stdout: out, Stderr: out}, s.system, args)
	require.Empty(t, out.String())
	return err
}

func TestRun(t *testing.T) {
	s := newStage(t, "HOME=/h", "LD_PRELOAD=/x.so")
	addr := toolcheck.Addr(t).String()
	require.ErrorIs(t,
		s.run(t, "--addr", addr, "--link", "udp", "--polling", "--stat", "--", s.program, "-a", "--link", "-h"), errRan)
	require.Equal(t, s.program, s.path)
	require.Equal(t, []string{s.program, "-a", "--link", "-h"}, s.argv)
	libs := filepath.Join(s.dir, "verbs")
	for name, want := range map[string]string{
		"HOME": "/h", "LD_LIBRARY_PATH": libs, "LD_PRELOAD": "/x.so:" + filepath.Join(libs, hookFile),
		"GOROCE_ADDR": addr, "GOROCE_LINK": "udp", "GOROCE_POLLING": "1", "GOROCE_STAT": "1",
	} {
		require.Equal(t, want, s.vars.get(name), name)
	}
}

// What the user has set already holds without options, and gives way to them.
func TestRunEnvironment(t *testing.T) {
	a, b := toolcheck.Addr(t).String(), toolcheck.Addr(t).String()
	s := newStage(t, "GOROCE_ADDR="+a+","+b, "GOROCE_POLLING=1")
	require.ErrorIs(t, s.run(t, s.program), errRan)
	require.Equal(t, a+","+b, s.vars.get("GOROCE_ADDR"))
	require.Equal(t, "1", s.vars.get("GOROCE_POLLING"))
	require.Empty(t, s.vars.get("GOROCE_LINK"))
	require.ErrorIs(t, s.run(t, "--addr", b, s.program), errRan)
	require.Equal(t, b, s.vars.get("GOROCE_ADDR"))
}

// Without an address there is one that the machine has.
func TestRunDefaultAddress(t *testing.T) {
	s := newStage(t)
	var place tool.Place
	s.available = func(_ *tool.Env, _ *tool.DeviceOptions, p tool.Place) error { place = p; return nil }
	require.ErrorIs(t, s.run(t, s.program), errRan)
	require.Equal(t, place.Addrs[0].String(), s.vars.get("GOROCE_ADDR"))
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(place.Addrs[0], 0)))
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestRunRefuses(t *testing.T) {
	s := newStage(t)
	taken := toolcheck.Addr(t)
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(taken, ib.UDPPort)))
	require.NoError(t, err)
	defer c.Close()
	addr := toolcheck.Addr(t).String()
	plain := writeFile(t, filepath.Join(s.dir, "plain"), []byte("#!/bin/sh\n"), 0o644)
	static := program{}.write(t, filepath.Join(s.dir, "static"))
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--addr", "192.0.2.77", s.program}, "192.0.2.77 is not an address of this machine"},
		{[]string{"--addr", "here", s.program}, `local address "here"`},
		{[]string{"--addr", taken.String(), s.program}, "address already in use"},
		{[]string{"--addr", addr, "roce-no-such-program"}, "roce-no-such-program: executable file not found"},
		{[]string{"--addr", addr, plain}, "permission denied"},
		{[]string{"--addr", addr, static}, "is statically linked"},
		{[]string{"-d", "no-such-interface", s.program}, "neither an address nor an interface"},
	} {
		require.ErrorContains(t, s.run(t, x.args...), x.want)
		require.NotContains(t, s.run(t, x.args...).Error(), "\n")
	}
	var usage *getopt.Error
	for _, args := range [][]string{nil, {"--"}, {"--link", "wire", s.program}, {"--nonsense", s.program}} {
		require.ErrorAs(t, s.run(t, args...), &usage)
	}
	s.self = filepath.Join(t.TempDir(), "roce")
	require.ErrorContains(t, s.run(t, "--addr", addr, s.program), `build them with "make verbs"`)
	require.False(t, s.ran)
}

// Devices share an address: that one is open is no reason to refuse.
func TestRunSharedAddress(t *testing.T) {
	addr := toolcheck.Addr(t)
	dev, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{addr}})
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	s := newStage(t)
	require.ErrorIs(t, s.run(t, "--addr", addr.String(), s.program), errRan)
}

// A signal that came before the program is one for it, too.
func TestRunInterrupted(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errRan)
	out := &toolcheck.Output{}
	err := run(ctx, &tool.Env{Stdout: out, Stderr: out}, s.system,
		[]string{"--addr", toolcheck.Addr(t).String(), s.program})
	require.ErrorIs(t, err, errRan)
	require.False(t, s.ran)
}

// asRoce in the environment makes the test binary "roce run" with its arguments.
const asRoce = "GOROCE_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(asRoce) == "" {
		os.Exit(m.Run())
	}
	// Not on the main function's thread, as it may also be in the program.
	runtime.LockOSThread()
	failed := make(chan error)
	go func() {
		failed <- Command().Run(context.Background(), &tool.Env{Stdout: os.Stdout, Stderr: os.Stderr}, os.Args[1:])
	}()
	os.Stderr.WriteString((<-failed).Error() + "\n")
	os.Exit(99)
}

// Who starts a program may want it to end with him, by prctl(PR_SET_PDEATHSIG).
func TestRunEndsWithItsParent(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("no setpriv")
	}
	libs := t.TempDir()
	fakeLibraries(t, libs)
	f, err := elfOf(setpriv)
	if err != nil || f.interp == "" {
		t.Skip("setpriv is not a dynamic program")
	}
	writeFile(t, filepath.Join(libs, libraryFiles[0]), f.build(), 0o755)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(setpriv, "--pdeathsig", "USR1", self, "--addr", toolcheck.Addr(t).String(), "--",
		setpriv, "--dump")
	cmd.Env = append(os.Environ(), asRoce+"=1", libVar+"="+libs)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Parent death signal: USR1")
}

// The program takes the place of "roce run": its output, its exit status and the signal that ends
// it are those of the process that was started.
func TestRunBecomesTheProgram(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	libs := t.TempDir()
	fakeLibraries(t, libs)
	self, err := elfOf(sh)
	if err != nil || self.interp == "" {
		t.Skip("the shell is not a dynamic program")
	}
	writeFile(t, filepath.Join(libs, libraryFiles[0]), self.build(), 0o755)
	addr := toolcheck.Addr(t).String()
	start := func(script string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "--addr", addr, "--", "sh", "-c", script)
		cmd.Env = append(os.Environ(), asRoce+"=1", libVar+"="+libs)
		return cmd
	}
	cmd := start(`echo $GOROCE_ADDR $$ "$LD_LIBRARY_PATH"; exit 7`)
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode(), "%s", exit.Stderr)
	require.Contains(t, string(out), addr+" ")
	require.Contains(t, string(out), libs)
	require.Contains(t, string(out), " "+strconv.Itoa(cmd.Process.Pid)+" ", "the program runs in a process of its own")

	require.ErrorAs(t, start("kill -TERM $$").Run(), &exit)
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal())
}
