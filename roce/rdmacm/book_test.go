package rdmacm_test

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// ownBooks has the files of a test for itself. Tests of this package that run beside others open no
// devices.
func ownBooks(t testing.TB) string {
	dir := "/dev/shm"
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err != nil {
		t.Skipf("no file without a name can be made in %s: %v", dir, err)
	} else {
		unix.Close(fd)
	}
	dir, err := os.MkdirTemp(dir, "goroce-test-")
	require.NoError(t, err)
	before := rdmacm.SetBookDir(dir)
	t.Cleanup(func() {
		rdmacm.SetBookDir(before)
		require.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

var (
	here  = netip.MustParseAddr("10.0.0.1")
	too   = netip.MustParseAddr("fe80::1")
	there = netip.MustParseAddr("10.0.0.2")
)

func willOf(id mad.CommID, src netip.Addr) cm.Will {
	return cm.Will{ID: id, Live: true, RemoteID: ^id, RemoteQPN: ib.QPN(id) & ib.QPNMask,
		Packet: cm.Packet{Src: src, Dst: there}}
}

// left returns what devices at an address find.
func left(local ...netip.Addr) map[mad.CommID]cm.Will {
	all := map[mad.CommID]cm.Will{}
	rdmacm.LeftWills(local, func(w *cm.Will) {
		l := *w
		l.Live = true
		all[w.ID] = l
	})
	return all
}

// What a process has left is found once it is gone, all of it and nothing else, and once.
func TestBook(t *testing.T) {
	dir := ownBooks(t)
	files := func() int {
		all, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(all)
	}
	var b rdmacm.Book
	require.Zero(t, files(), "no connection, no file")
	want := map[mad.CommID]cm.Will{}
	for id := mad.CommID(1); id < 300; id++ {
		w := willOf(id, here)
		b.Note(&w)
		want[id] = w
	}
	for id := mad.CommID(1); id < 300; id += 2 {
		b.Note(&cm.Will{ID: id})
		delete(want, id)
	}
	again := willOf(1000, too) // takes a place that was used
	b.Note(&again)
	again.Dst = here
	b.Note(&again)
	want[1000] = again
	b.Note(&cm.Will{ID: 4711}) // never was one
	require.Equal(t, 1, files())
	require.Empty(t, left(here, too), "it is there")
	b.Die()
	require.Empty(t, left(there))
	require.Equal(t, want, left(here, too))
	require.Zero(t, files())

	var orderly rdmacm.Book
	w := willOf(7, here)
	orderly.Note(&w)
	orderly.Close()
	require.Zero(t, files())
	require.Empty(t, left(here))
}

// What is for another address stays for a device there, though not for ever.
func TestBookOfAnotherAddress(t *testing.T) {
	ownBooks(t)
	var b rdmacm.Book
	mine, others := willOf(1, here), willOf(2, there)
	b.Note(&mine)
	b.Note(&others)
	b.Die()
	require.Len(t, left(here), 1)
	require.Empty(t, left(here), "it was said")
	require.FileExists(t, b.Name())
	f, err := os.OpenFile(b.Name(), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var at [8]byte
	_, err = f.ReadAt(at[:], rdmacm.FoundAt)
	require.NoError(t, err)
	binary.NativeEndian.PutUint64(at[:], binary.NativeEndian.Uint64(at[:])-rdmacm.LeftFor-1)
	_, err = f.WriteAt(at[:], rdmacm.FoundAt)
	require.NoError(t, err)
	require.Empty(t, left(here))
	require.NoFileExists(t, b.Name())
}

// What somebody else has put there does no harm.
func TestBookIsNone(t *testing.T) {
	dir := ownBooks(t)
	name := func(s string) string { return filepath.Join(dir, rdmacm.BookPrefix()+s) }
	target := filepath.Join(dir, "file")
	var b rdmacm.Book
	w := willOf(1, here)
	b.Note(&w)
	b.Die()
	require.NoError(t, os.Rename(b.Name(), target))
	require.NoError(t, os.Symlink(target, name("link")))
	require.NoError(t, os.Mkdir(name("folder"), 0o700))
	require.NoError(t, unix.Mkfifo(name("pipe"), 0o600))
	require.NoError(t, os.WriteFile(name("short"), make([]byte, 63), 0o600))
	require.NoError(t, os.WriteFile(name("empty"), nil, 0o600))
	long, err := os.Create(name("long"))
	require.NoError(t, err)
	require.NoError(t, long.Truncate(1<<40))
	require.NoError(t, long.Close())
	require.Empty(t, left(here))
	require.NoError(t, os.Link(target, name("second")))
	require.Empty(t, left(here), "another user may make a name for a file of this one")
	require.FileExists(t, target)
}

func FuzzReadLeft(f *testing.F) {
	name := filepath.Join(ownBooks(f), rdmacm.BookPrefix()+"x")
	f.Add(make([]byte, 3*rdmacm.EntryBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(name, b, 0o600))
		n := 0
		rdmacm.ReadLeft(name, []netip.Addr{here}, func(w *cm.Will) {
			require.Equal(t, here, w.Src)
			n++
		})
		require.Less(t, n, max(len(b)/rdmacm.EntryBytes, 1))
	})
}

// A device at the address of a process that is gone tells the peers of that.
func TestNextDeviceTellsPeers(t *testing.T) {
	ownBooks(t)
	before := rdmacm.WaitForTold(time.Minute)
	defer rdmacm.WaitForTold(before)
	ctx := rocetest.Context(t)
	s, c := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 7471)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	sid := c.Connect(t, ctx, cid, s)
	wills, err := rdmacm.WillsOf(c.D)
	require.NoError(t, err)
	require.Len(t, wills, 1)
	var b rdmacm.Book
	b.Note(&wills[0])
	b.Die()

	next, err := verbs.Open(verbs.Config{Addrs: c.D.Addrs()})
	require.NoError(t, err)
	defer next.Close()
	rocetest.PeerOn(t, next).Listen(t, rdmacm.PortSpaceTCP, 7471)
	require.Equal(t, verbs.StateErr, sid.QP().State(), "when Listen returns the peers know")
	require.ErrorIs(t, s.Next(t, ctx, rdmacm.EventDisconnected).Err, verbs.ErrPeerGone)
	n := rdmacm.CountersOf(s.D)
	require.Zero(t, n.Stale, "it has not asked")
	require.NoFileExists(t, b.Name())
}
