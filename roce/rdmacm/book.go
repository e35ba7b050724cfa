package rdmacm

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/processes"
	"github.com/goroce/goroce/roce/rdmacm/cm"
)

// book holds the last wills of a device, in a file in memory. A process that is killed cannot say
// goodbye, and its peers ask only twice a second. So the next device at its address reads the file
// and says goodbye for it before it accepts connections: a peer with an old connection learns of a
// restart before it can meet the new process, as with a kernel.
//
// A mapping of the file holds a lock (flock). The kernel releases it with the memory of the
// process, when that ends or executes another program; children do not inherit the mapping. A
// process that gets the lock may read the file, and removes it.
//
// A device without connections has no file. A device that cannot make one does without.
type book struct {
	tried  bool
	fd     int
	name   string
	held   []byte             // the mapping, which only holds the lock
	places map[mad.CommID]int // where the wills are
	free   []int              // places that were used
}

// The file begins with 64 bytes: the number of its network namespace, and when it was first found
// without an owner by a device at another address (see readLeft). The wills follow. Each is within
// a page, and written at once, so that it is there or not.
const (
	willLive   = 0 // of 32 bits, as those up to 12
	willID     = 4
	willPeer   = 8
	willQPN    = 12
	willSrc    = 16
	willDst    = 32
	entryBytes = 64

	foundAt = 8
	// maxBook is the most wills: as many as there can be connections.
	maxBook = 1 << 17
	// maxLeft bounds how many names in the directory are examined: others have files there as well.
	maxLeft = 1 << 14
	// leftFor is how long a file is kept for a device at its address, in nanoseconds. By then its
	// peers have long noticed.
	leftFor = 60e9
)

// bookDir is the directory of the files. It is a variable for tests.
var bookDir = "/dev/shm"

func bookPrefix() string { return fmt.Sprintf("goroce-wills-%d-", os.Geteuid()) }

// note records a change.
func (b *book) note(w *cm.Will) {
	i, known := b.places[w.ID]
	var e [entryBytes]byte
	switch {
	case !w.Live && !known:
		return
	case !w.Live:
		delete(b.places, w.ID)
		b.free = append(b.free, i)
	case known:
	default:
		if !b.tried {
			b.tried = true
			if b.open() {
				b.places = map[mad.CommID]int{}
			}
		}
		if b.places == nil || len(b.places) >= maxBook {
			return
		}
		if i = len(b.places) + 1; len(b.free) > 0 {
			i = b.free[len(b.free)-1]
			b.free = b.free[:len(b.free)-1]
		}
		b.places[w.ID] = i
	}
	if w.Live {
		be := binary.NativeEndian
		be.PutUint32(e[willLive:], 1)
		be.PutUint32(e[willID:], uint32(w.ID))
		be.PutUint32(e[willPeer:], uint32(w.RemoteID))
		be.PutUint32(e[willQPN:], uint32(w.RemoteQPN))
		src, dst := w.Src.As16(), w.Dst.As16()
		copy(e[willSrc:], src[:])
		copy(e[willDst:], dst[:])
	}
	_, _ = unix.Pwrite(b.fd, e[:], int64(i)*entryBytes) // without room for it, its peer finds out by asking
}

// open makes the file. It gets a name only once it is locked.
func (b *book) open() bool {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) != nil || limit.Cur < (maxBook+1)*entryBytes {
		return false // writing would cause a SIGXFSZ
	}
	fd, err := unix.Open(bookDir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false
	}
	var head [entryBytes]byte
	binary.NativeEndian.PutUint64(head[:], netNamespace())
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	name := fmt.Sprintf("%s/%s%d-%s", bookDir, bookPrefix(), os.Getpid(), rand.Text())
	if _, err = unix.Pwrite(fd, head[:], 0); err == nil {
		if b.held, err = holdLock(self); err == nil {
			err = unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		}
	}
	if err != nil {
		_ = unix.Munmap(b.held)
		unix.Close(fd)
		return false
	}
	b.fd, b.name = fd, name
	return true
}

// holdLock locks a file for as long as the returned mapping exists.
func holdLock(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}
	m, err := unix.Mmap(fd, 0, entryBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	if err := unix.Madvise(m, unix.MADV_DONTFORK); err != nil {
		_ = unix.Munmap(m)
		return nil, err
	}
	return m, nil
}

// close removes the file: the peers have been told. b may be nil.
func (b *book) close() {
	if b == nil || b.places == nil {
		return
	}
	_ = unix.Unlink(b.name)
	_ = unix.Munmap(b.held)
	unix.Close(b.fd)
	b.places = nil
}

// leftWills calls tell with the wills of this user's dead processes that had one of the addresses.
func leftWills(local []netip.Addr, tell func(*cm.Will)) {
	d, err := os.Open(bookDir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxLeft)
	for _, n := range names {
		if strings.HasPrefix(n, bookPrefix()) {
			readLeft(bookDir+"/"+n, local, tell)
		}
	}
}

// readLeft reads one file, unless its owner lives, and removes it once it is empty.
func readLeft(name string, local []netip.Addr, tell func(*cm.Will)) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil || unix.Fstat(fd, &st) != nil || st.Nlink != 1 ||
		st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > (maxBook+1)*entryBytes ||
		processes.Check(&unix.Ucred{Uid: st.Uid, Pid: -1}) != nil {
		return
	}
	b := make([]byte, st.Size)
	if n, err := unix.Pread(fd, b, 0); err != nil || n < entryBytes {
		_ = unix.Unlink(name)
		return
	}
	ne := binary.NativeEndian
	here, others := ne.Uint64(b) == netNamespace(), false
	for i := 1; (i+1)*entryBytes <= len(b); i++ {
		e := b[i*entryBytes:][:entryBytes]
		if ne.Uint32(e[willLive:]) != 1 {
			continue
		}
		w := cm.Will{
			ID: mad.CommID(ne.Uint32(e[willID:])), RemoteID: mad.CommID(ne.Uint32(e[willPeer:])),
			RemoteQPN: ib.QPN(ne.Uint32(e[willQPN:])), Packet: cm.Packet{Src: netip.AddrFrom16([16]byte(e[willSrc:])).
					Unmap(), Dst: netip.AddrFrom16([16]byte(e[willDst:])).Unmap()},
		}
		if !here || !slices.ContainsFunc(local, func(a netip.Addr) bool { return a.Unmap().WithZone("") == w.Src }) {
			others = true
			continue
		}
		tell(&w)
		clear(e)
		_, _ = unix.Pwrite(fd, e, int64(i)*entryBytes) // a second goodbye does no harm
	}
	now, found := bootTime(), int64(ne.Uint64(b[foundAt:]))
	if others && found == 0 {
		ne.PutUint64(b[foundAt:], uint64(now))
		_, _ = unix.Pwrite(fd, b[:entryBytes], 0)
	}
	if !others || found != 0 && now-found > leftFor {
		_ = unix.Unlink(name)
	}
}

func bootTime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return max(t.Nano(), 1)
}

func netNamespace() uint64 {
	var st unix.Stat_t
	_ = unix.Stat("/proc/thread-self/ns/net", &st) // without /proc all namespaces count as one
	return st.Ino
}
