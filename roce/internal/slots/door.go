package slots

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/processes"
)

// Devices of an address meet at Unix sockets of two kinds. An abstract name is visible to all
// processes of the network namespace, whatever they see of the file system, but anybody can take it
// first. A socket in a directory that only the user can write to is safe from that, but not all
// processes see it. So the first device makes both where it can, and others knock at both.

// name returns the name of the abstract Unix socket. Such names belong to a network namespace, as
// addresses do. The number is the version of the way descriptors are handed around: processes that
// do it otherwise do not meet.
func (a Address) name() string { return fmt.Sprintf("\x00goroce/slots/2/%d/%s", os.Geteuid(), a.key()) }

func (a Address) key() string { return fmt.Sprintf("%v%%%d:%d", a.Addr, a.Scope, a.Port) }

// path returns the path of the socket in a directory, if there is such a directory. A directory may
// be seen from several network namespaces, so the name has the namespace's number in it.
func (a Address) path() (string, bool) {
	dir, ok := userDir()
	if !ok {
		return "", false
	}
	var ns unix.Stat_t
	if unix.Stat("/proc/thread-self/ns/net", &ns) != nil {
		return "", false
	}
	return path.Join(dir, fmt.Sprintf("%s%d-%s", filePrefix, ns.Ino, a.key())), true
}

// userDir returns the directory in which only the user and root can make files. It ignores
// environment variables; otherwise processes of one user might not meet.
var userDir = func() (string, bool) {
	if uid := os.Geteuid(); uid != 0 {
		return ownDir(fmt.Sprintf("/run/user/%d", uid))
	}
	return ownDir("/run")
}

// ownDir returns a directory and reports whether it is the user's.
func ownDir(dir string) (string, bool) {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o022 != 0 {
		return "", false
	}
	return dir, processes.Check(&unix.Ucred{Uid: st.Uid, Pid: -1}) == nil
}

// doors returns the names at which to knock.
func (a Address) doors() []string {
	if p, ok := a.path(); ok {
		return []string{p, a.name()}
	}
	return []string{a.name()}
}

// errNobody means that no process listens.
var errNobody = errors.New("nobody has the address")

// knock connects to a process that has the address. A non-nil foreign means that another user has
// the abstract name.
func (a Address) knock() (c int, foreign, err error) {
	err = errNobody
	for _, name := range a.doors() {
		c, e := connect(name)
		switch {
		case e == nil:
			return c, foreign, nil
		case errors.Is(e, ErrForeign):
			foreign = e
		case errors.Is(e, unix.EAGAIN): // its queue is full
			err = errAgain
		case errors.Is(e, unix.ECONNREFUSED), errors.Is(e, unix.ENOENT), name[0] != 0:
		default:
			return -1, foreign, unsupported("connect", e)
		}
	}
	return -1, foreign, err
}

// connect connects to a process of this user. It does not wait.
func connect(name string) (int, error) {
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = ignoringEINTR(func() error { return unix.Connect(c, &unix.SockaddrUnix{Name: name}) })
	if err == nil {
		err = sameUser(c)
	}
	if err != nil {
		unix.Close(c)
		return -1, err
	}
	return c, nil
}

// sameUser returns an error unless the process at the other end is one of the same user.
func sameUser(c int) error {
	cred, err := processes.Of(c)
	if err != nil {
		return unsupported("Unix socket", err)
	}
	if err := processes.Check(cred); err != nil {
		return fmt.Errorf("%w: pid %d is %w", ErrForeign, cred.Pid, err)
	}
	return nil
}

// openDoor makes a socket that listens.
func openDoor(name string) (int, error) {
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	file := name != "" && name[0] != 0
	if file {
		_ = unix.Unlink(name) // left by devices that were killed: the holder of the port may remove it
		sweep(path.Dir(name))
	}
	if name != "" {
		err = unix.Bind(l, &unix.SockaddrUnix{Name: name})
		if err == nil && file {
			err = unix.Chmod(name, 0o600)
		}
		if err == nil {
			err = unix.Listen(l, backlog)
		}
	}
	if err != nil {
		unix.Close(l)
		return -1, err
	}
	return l, nil
}

// sweep removes files that devices have left at other addresses. Nothing else removes them.
func sweep(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	probes := 0
	for _, n := range names {
		if !strings.HasPrefix(n, filePrefix) {
			continue
		}
		if probes++; probes > maxSweep {
			return
		}
		name := path.Join(dir, n)
		var before, now unix.Stat_t
		if unix.Lstat(name, &before) == nil && before.Mode&unix.S_IFMT == unix.S_IFSOCK && isLeft(name) &&
			unix.Lstat(name, &now) == nil && now.Ino == before.Ino {
			_ = unix.Unlink(name)
		}
	}
}

// isLeft reports whether a socket file has outlived the process that made it. The probe is a socket
// of another type, which the kernel refuses before it looks for a listener, so a live process is
// not disturbed.
func isLeft(name string) bool {
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(c)
	return errors.Is(unix.Connect(c, &unix.SockaddrUnix{Name: name}), unix.ECONNREFUSED)
}

// listens reports whether a socket accepts connections.
func listens(fd int) bool {
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && v == 1
}

// listeners returns the numbers (st_ino) of the sockets that listen at the doors, as the kernel
// lists them.
func (a Address) listeners() (inodes []uint64) {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil
	}
	defer f.Close()
	want := map[string]bool{}
	for _, n := range a.doors() {
		want[strings.Replace(n, "\x00", "@", 1)] = true
	}
	// The fields are number, references, protocol, flags, type, state, inode and name; the flag
	// __SO_ACCEPTCON marks a socket that listens.
	for s := bufio.NewScanner(f); s.Scan(); {
		if c := strings.Fields(s.Text()); len(c) == 8 && c[3] == "00010000" && want[c[7]] {
			if n, err := strconv.ParseUint(c[6], 10, 64); err == nil {
				inodes = append(inodes, n)
			}
		}
	}
	return inodes
}
