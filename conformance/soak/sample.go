package soak

import (
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// Sample is what a process has at a moment.
type Sample struct {
	HeapBytes, ResidentBytes         int
	Goroutines, Threads, Descriptors int
	Slots                            int // of the address, of all processes
	PDs, Regions                     int
	CMConns, CMTimewait, CMTables    int // of the communication manager
	Lingering                        int // closed rsockets whose goodbye has not arrived
	Conns, Streams                   int // that the program has
	CPU                              time.Duration
	Counters                         verbs.Counters
	// With a server that stays since the rest before, by how long they took.
	Exchanges []int64 `json:",omitempty"`
}

// settled reports whether what ends by itself after a while has ended.
func (s *Sample) settled() bool {
	return s.CMTimewait == 0 && s.Lingering == 0 && s.CMConns == s.Conns+s.Streams
}

// open counts the connections that the program has.
type open struct{ conns, streams atomic.Int64 }

// collect collects until nothing goes any more. What a pool holds lives for two collections; what a
// cleanup or a weak pointer has to do with goes after one or two more, and takes others along.
func collect() {
	const collections = 10
	for least, i := uint64(math.MaxUint64), 0; i < collections; i++ {
		runtime.GC()
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); i >= 3 && m.HeapAlloc >= least {
			break
		}
		least = m.HeapAlloc
	}
	debug.FreeOSMemory()
}

// take measures this process, after a collection if it is to be exact.
func take(d *verbs.Device, o *open, exact bool) (Sample, error) {
	if exact {
		collect()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	counts, cm := d.MemCounts(), rdmacm.CountersOf(d).Now
	s := Sample{
		HeapBytes: int(m.HeapAlloc), Goroutines: runtime.NumGoroutine(),
		PDs: counts.PDs, Regions: counts.Regions,
		CMConns: cm.Conns, CMTimewait: cm.Timewait, CMTables: cm.Tables, Lingering: rsocket.Lingering(d).Conns,
		Conns: int(o.conns.Load()), Streams: int(o.streams.Load()), Counters: d.Counters(),
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return s, err
	}
	s.CPU = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case f[0] == "VmRSS:":
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				return s, err
			}
			s.ResidentBytes = kib << 10
		case f[0] == "Threads:":
			if s.Threads, err = strconv.Atoi(f[1]); err != nil {
				return s, err
			}
		}
	}
	s.Descriptors, s.Slots, err = descriptors()
	return s, err
}

// slotCount is how many slots an address has: bytes at the start of a memory file, of which a
// device locks its own.
const slotCount = 64

// descriptors counts the descriptors of this process, and the slots of its address that are taken.
func descriptors() (n, slots int, err error) {
	const dir = "/proc/self/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	seen := map[uint64]bool{}
	for _, fd := range fds {
		name := dir + "/" + fd.Name()
		to, err := os.Readlink(name)
		if err != nil {
			continue // that of the directory, which is closed
		}
		n++
		var st unix.Stat_t
		if !strings.Contains(to, "goroce-slots") || unix.Stat(name, &st) != nil || seen[st.Ino] {
			continue
		}
		seen[st.Ino] = true
		taken, err := taken(name)
		if err != nil {
			return n, 0, err
		}
		slots += taken
	}
	return n, slots, nil
}

// taken asks the kernel for the lock of each slot. /proc/locks would not do: it is read in pieces,
// and a lock that comes anywhere on the machine between two of them shows the last line again.
func taken(name string) (n int, err error) {
	// A file of its own, to which the locks of this process are others', too.
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for at := range int64(slotCount) {
		l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
		if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l); err != nil {
			return n, err
		}
		if l.Type != unix.F_UNLCK {
			n++
		}
	}
	return n, nil
}
