//go:build linux

package slots

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// impatient has Open give up early.
func impatient(t *testing.T, meet, still time.Duration) {
	m, s, g := meetTime, stillTime, glance
	t.Cleanup(func() { meetTime, stillTime, glance = m, s, g })
	meetTime, stillTime, glance = meet, still, time.Millisecond
}

// refuseGetfd is a kernel that permits no process to take from another one.
func refuseGetfd(t *testing.T) {
	t.Cleanup(func() { getfd = unix.PidfdGetfd })
	getfd = func(int, int, int) (int, error) { return -1, unix.EPERM }
}

// Processes that stand still keep nobody out: their descriptors are taken without them.
func TestBesideOneThatStandsStill(t *testing.T) {
	a := address()
	first := start(t, a, 0)
	require.Equal(t, "0", first.say("open"))
	first.stop()
	l, err := Open([]Address{a})
	if err != nil && getfdRefused(first.cmd.Process.Pid) {
		t.Skipf("pidfd_getfd is not permitted here: %v", err)
	}
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, 1, l.slot)

	// Nothing is different after that: others join, whichever of the two runs or dies.
	mine := func() {
		t.Helper()
		require.NoError(t, l.Hear(0))
		b := packet(l.Slot().QPN(77))
		send(t, a, packet(ib.Slot{Index: 0, Bits: Bits}.QPN(77)))
		send(t, a, b)
		require.Equal(t, [][]byte{b}, arrived(t, l.Socket(0)))
	}
	mine()
	second := start(t, a, 0)
	require.Equal(t, "2", second.say("open"))
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	require.Equal(t, "ok", first.say("announce 7"))
	owner, ok := l.Owner(0, 7)
	require.True(t, ok)
	require.Zero(t, owner)
	first.kill()
	mine()
	require.Equal(t, 3, lease(t, a).slot)
}

func getfdRefused(pid int) bool {
	proc, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(proc)
	fd, err := unix.PidfdGetfd(proc, 0, 0)
	unix.Close(fd)
	return err != nil
}

// Where that is not permitted the error says who it is, and what helps.
func TestHeldByOneThatStandsStill(t *testing.T) {
	impatient(t, time.Minute, time.Millisecond)
	refuseGetfd(t)
	a := address()
	p := start(t, a, 0)
	require.Equal(t, "0", p.say("open"))
	p.stop()
	_, err := Open([]Address{a})
	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.NotErrorIs(t, err, ErrUnsupported)
	pid := p.cmd.Process.Pid
	require.ErrorContains(t, err, fmt.Sprintf("UDP port %d is held by pid %d (", a.Port, pid))
	require.ErrorContains(t, err, "which is stopped (state T)")
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Contains(t, held.Hint(), fmt.Sprintf("kill -CONT %d", pid))

	// If it goes on, or another one is there that runs, it is enough.
	stillTime = time.Minute
	got := make(chan error, 1)
	go func() {
		l, err := Open([]Address{a})
		if err == nil {
			l.Close()
		}
		got <- err
	}()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	require.NoError(t, <-got)
	q := start(t, a, 0)
	require.NotContains(t, q.say("open"), "error")
	p.stop()
	require.NotZero(t, lease(t, a).slot)
}

// A process that has the name and says nothing costs a bounded time, and is named.
func TestSilentServer(t *testing.T) {
	impatient(t, 10*time.Millisecond, time.Minute)
	a := address()
	ln, err := openDoor(a.name())
	require.NoError(t, err)
	defer unix.Close(ln)
	_, err = Open([]Address{a})
	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.ErrorContains(t, err, fmt.Sprintf("is held by pid %d (", os.Getpid()))
	var conns []int // nor does it matter that its queue is full
	for {
		c, err := connect(a.name())
		if err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			break
		}
		conns = append(conns, c)
	}
	_, err = Open([]Address{a})
	require.ErrorContains(t, err, fmt.Sprintf("is held by pid %d (", os.Getpid()))
	closeAll(conns)
}

// Where there are users that the user namespace does not map a process that has their number
// lets nobody join.
func TestUnmappedUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	a := address()
	inside := startAs(t, a, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER})
	if s := inside.say("open"); s != "0" {
		t.Skipf("no address in a user namespace: %s", s)
	}
	outside := start(t, address(), nobody-1)
	require.Contains(t, outside.say("ask %d %d", a.Port, nobody), "nobody answers")
	require.Equal(t, "1", inside.say("open"), "and a second device of the process is no stranger")
}

// directory is one in which only the user makes files.
func directory(t *testing.T) string {
	d := t.TempDir()
	require.NoError(t, os.Chmod(d, 0o700))
	return d
}

func useDirectory(t *testing.T) string {
	d := directory(t)
	useDir(d)
	t.Cleanup(func() { useDir("") })
	return d
}

// Another user can take the abstract name of an address. Those who have a directory of the
// user meet there all the same; others hear who it is.
func TestSquatted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	a := address()
	squatter := start(t, a, nobody)
	require.Equal(t, "ok", squatter.say("squat %s", strings.TrimPrefix(a.name(), "\x00")))
	_, err := Open([]Address{a})
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, fmt.Sprintf("pid %d is of another user (user %d)", squatter.cmd.Process.Pid, nobody))

	dir := useDirectory(t)
	require.Zero(t, lease(t, a).slot)
	require.Equal(t, 1, lease(t, a).slot)
	p := start(t, a, 0)
	require.Equal(t, "ok", p.say("dir %s", dir))
	require.Equal(t, "2", p.say("open"))
	q := start(t, a, 0)
	require.Contains(t, q.say("open"), "user 65534", "it has no directory")
}

// Processes that see the directory and such as do not meet, in either order; and the last
// one leaves no file.
func TestDirectory(t *testing.T) {
	for _, founder := range []bool{true, false} {
		a := address()
		dir := directory(t)
		ps := []*process{start(t, a, 0), start(t, a, 0), start(t, a, 0)}
		for i, p := range ps {
			if (i%2 == 0) == founder {
				require.Equal(t, "ok", p.say("dir %s", dir))
			}
			require.Equal(t, fmt.Sprint(i), p.say("open"))
		}
		files, err := filepath.Glob(dir + "/goroce-slots-*")
		require.NoError(t, err)
		require.Equal(t, founder, len(files) == 1)
		for _, p := range ps {
			require.Equal(t, "ok", p.say("close"))
		}
		files, err = filepath.Glob(dir + "/*")
		require.NoError(t, err)
		require.Empty(t, files)
	}
}

// A file that a killed device has left is no hindrance.
func TestFileIsLeft(t *testing.T) {
	a := address()
	dir := useDirectory(t)
	p := start(t, a, 0)
	require.Equal(t, "ok", p.say("dir %s", dir))
	require.Equal(t, "0", p.say("open"))
	p.kill()
	file, ok := a.path()
	require.True(t, ok)
	require.FileExists(t, file)
	require.Zero(t, lease(t, a).slot)
	c, err := connect(file)
	require.NoError(t, err, "it is this device's now")
	unix.Close(c)

	// Those at other addresses go when a device begins anywhere; what is in use, and what is not
	// ours, stays.
	mine, other := address(), address()
	p = start(t, other, 0)
	require.Equal(t, "ok", p.say("dir %s", dir))
	require.Equal(t, "0", p.say("open"))
	left, ok := other.path()
	require.True(t, ok)
	require.NoError(t, os.WriteFile(dir+"/goroce-else", nil, 0o600))
	lease(t, mine)
	require.FileExists(t, left)
	p.kill()
	lease(t, address())
	require.NoFileExists(t, left)
	require.FileExists(t, file)
	require.FileExists(t, dir+"/goroce-else")
}

// Only a directory where nobody else can make files is one of the user.
func TestOwnDir(t *testing.T) {
	d := directory(t)
	is := func(dir string) bool { _, ok := ownDir(dir); return ok }
	require.True(t, is(d))
	require.False(t, is(d+"/none"))
	require.NoError(t, os.Symlink(d, d+"/link"))
	require.False(t, is(d+"/link"))
	require.NoError(t, os.WriteFile(d+"/file", nil, 0o600))
	require.False(t, is(d+"/file"))
	require.NoError(t, os.Chmod(d, 0o770))
	require.False(t, is(d))
	require.NoError(t, os.Chmod(d, 0o700))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(d, nobody, nobody))
		require.False(t, is(d))
	}
}

// The longest name of a file fits.
func TestPathFits(t *testing.T) {
	useDirectory(t)
	a := Address{Scope: 1<<31 - 1, Port: 65535}
	require.NoError(t, a.Addr.UnmarshalText([]byte("fe80:1111:2222:3333:4444:5555:6666:7777")))
	p, ok := a.path()
	require.True(t, ok)
	require.Less(t, len("/run/user/4294967295/")+len(filepath.Base(p)), 108)
}

// Nobody can take from under the others what the memory file holds.
func TestMemoryIsSealed(t *testing.T) {
	l := lease(t, address())
	fd := l.sets[0].fds[memoryAt]
	require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(fd, 1<<20), unix.EPERM)
	require.NoError(t, checkSealed(fd))
	numbers, err := readNumbers(fd)
	require.NoError(t, err)
	for i, fd := range l.sets[0].fds {
		n, err := inode(fd)
		require.NoError(t, err)
		require.Equal(t, n, numbers[i])
	}
}

// A process that may not open enough hears how much that would be.
func TestFewDescriptors(t *testing.T) {
	a := address()
	lease(t, a)
	exe, err := os.Executable()
	require.NoError(t, err)
	for what, at := range map[string]Address{"joins": a, "is the first": address()} {
		c := exec.Command("sh", "-c", "ulimit -n 64 && exec "+exe)
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%v:%d", childEnv, at.Addr, at.Port))
		c.Stdin = strings.NewReader("open\n")
		out, err := c.Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "too many open files", what)
		require.Contains(t, string(out),
			fmt.Sprintf("takes %d descriptors at an address, and this process may have 64 open in all", needFDs), what)
		require.Contains(t, string(out), "ulimit -n", what)
	}
}

// While the process that listens runs its answer is waited for, and nobody reads what all processes
// have open: many devices that did so at once would keep it from the CPU.
func TestWillAnswer(t *testing.T) {
	impatient(t, time.Minute, time.Minute)
	a := address()
	p := start(t, a, 0)
	require.Equal(t, "0", p.say("open"))
	c, err := connect(a.name())
	require.NoError(t, err)
	defer unix.Close(c)
	m := meeting{a: a, start: time.Now()}
	willAnswer := func(after time.Duration) bool { return m.willAnswer(c, m.start.Add(after)) }
	require.True(t, willAnswer(29*time.Second))
	require.False(t, willAnswer(30*time.Second), "its device may be closed")
	p.stop()
	require.False(t, willAnswer(time.Second))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	require.True(t, willAnswer(time.Second))
	p.kill()
	require.False(t, willAnswer(time.Second))
}

// Looks that take long are rare.
func TestPause(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ pause, took, want time.Duration }{
		{100 * ms, ms, 200 * ms},
		{400 * ms, ms, 500 * ms},
		{500 * ms, ms, 500 * ms},
		{100 * ms, 100 * ms, 1000 * ms},
		{1000 * ms, ms, 500 * ms},
		{100 * ms, 2000 * ms, 5000 * ms},
	} {
		require.Equal(t, c.want, nextPause(c.pause, c.took), "%+v", c)
	}
}
