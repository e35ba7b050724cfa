package trace

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// onSmallDisk runs f on a thread of its own, for which dir is a file system of 64 KiB.
func onSmallDisk(dir string, f func() error) (err, unfit error) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever
		if unfit = unix.Unshare(unix.CLONE_NEWNS); unfit == nil {
			unfit = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if unfit == nil {
			unfit = unix.Mount("none", dir, "tmpfs", 0, "size=64k")
		}
		if unfit != nil {
			done <- nil
			return
		}
		done <- f()
	}()
	return <-done, unfit
}

// A disk that becomes full ends the trace; the link goes on. The file is good up to the packet
// that is cut.
func TestDiskFull(t *testing.T) {
	l := &below{virtual: true}
	var tr *Link
	file := filepath.Join(t.TempDir(), "trace")
	var written []byte
	err, unfit := onSmallDisk(filepath.Dir(file), func() error {
		w, err := os.Create(file)
		if err != nil {
			return err
		}
		defer w.Close()
		if tr, err = New(l, w); err != nil {
			return err
		}
		for psn := range 1000 {
			tr.Send([]edge.TxPacket{packetOn(&edge.Path{Src: four, Dst: four.Next()}, psn)})
		}
		written, err = os.ReadFile(file)
		return err
	})
	if unfit != nil {
		t.Skip("no file system of its own here:", unfit)
	}
	require.NoError(t, err)
	require.ErrorIs(t, tr.Err(), syscall.ENOSPC)
	require.Equal(t, 1000, l.sent)
	require.Len(t, written, 64<<10)
	require.NoError(t, os.WriteFile(file, written, 0o600))
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	r, err := pcap.NewReader(f)
	require.NoError(t, err)
	for n := uint64(0); ; n++ {
		var frame pcap.Frame
		if err := r.Next(&frame); err != nil {
			require.NotErrorIs(t, err, io.EOF) // it says that the file is cut
			require.ErrorContains(t, err, "the file ends")
			require.Equal(t, tr.Packets(), n)
			return
		}
		require.NotEmpty(t, frame.Data)
	}
}
