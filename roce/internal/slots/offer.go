package slots

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// errAgain means that the process that was asked is gone or about to begin: ask again.
var errAgain = errors.New("nobody answers")

// The offer is one message: these bytes and all descriptors. The names of the Unix sockets carry
// the version.
const (
	offerMagic = "goroce slots"
	offerBytes = len(offerMagic) + 4 // with slots and descriptors, two bytes each
)

func offer() []byte {
	b := binary.BigEndian.AppendUint16([]byte(offerMagic), Count)
	return binary.BigEndian.AppendUint16(b, numFDs)
}

// checkOffer returns an error unless b is an offer and comes with the right number n of
// descriptors.
func checkOffer(b []byte, n int) error {
	switch {
	case len(b) != offerBytes || string(b[:len(offerMagic)]) != offerMagic:
		return fmt.Errorf("%d bytes that are no offer", len(b))
	case binary.BigEndian.Uint16(b[len(offerMagic):]) != Count:
		return fmt.Errorf("%d slots, not %d", binary.BigEndian.Uint16(b[len(offerMagic):]), Count)
	case binary.BigEndian.Uint16(b[len(offerMagic)+2:]) != numFDs || n != numFDs:
		return fmt.Errorf("%d descriptors, of %d", n, numFDs)
	}
	return nil
}

// take receives the offer.
func take(c int) (fds [numFDs]int, err error) {
	var n, oobn, flags int
	b, oob := make([]byte, offerBytes+1), make([]byte, unix.CmsgSpace(4*numFDs))
	err = ignoringEINTR(func() (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(c, b, oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil || n == 0 {
		return fds, errAgain // the process went away
	}
	got := rights(oob[:oobn])
	switch err = checkOffer(b[:n], len(got)); {
	case flags&unix.MSG_TRUNC != 0:
		err = errors.New("truncated")
	case flags&unix.MSG_CTRUNC != 0:
		err = unix.EMFILE // the kernel passes only as many as there is room for
	case err == nil:
		copy(fds[:], got)
		err = checkKinds(&fds)
	}
	if err != nil {
		closeAll(got)
		return fds, unsupported("offer", err)
	}
	return fds, nil
}

// rights returns the descriptors in control messages.
func rights(oob []byte) (fds []int) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		if len(msgs[i].Data)%4 != 0 {
			continue // ParseUnixRights would panic
		}
		if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// checkKinds returns an error unless all descriptors are of the right kinds.
func checkKinds(fds *[numFDs]int) error {
	for i, fd := range fds {
		if i == memoryAt {
			if err := checkSealed(fd); err != nil {
				return err
			}
			continue
		}
		want := unix.SOCK_DGRAM
		if i == listenerAt || i == fileAt {
			want = unix.SOCK_SEQPACKET
		}
		typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil || typ != want {
			return fmt.Errorf("descriptor %d is of another kind", i)
		}
	}
	return nil
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// server makes the offer to all processes that connect.
type server struct {
	lns  []*net.UnixListener
	fds  []int
	quit chan struct{}
	wg   sync.WaitGroup
}

// serve starts a server. The descriptors must stay open until close has returned.
func serve(fds [numFDs]int) (*server, error) {
	s := &server{fds: fds[:], quit: make(chan struct{})}
	for _, at := range []int{listenerAt, fileAt} {
		if !listens(fds[at]) {
			continue
		}
		ln, err := listener(fds[at])
		if err != nil {
			s.close()
			return nil, err
		}
		s.lns = append(s.lns, ln)
		s.wg.Add(1)
		go s.run(ln)
	}
	return s, nil
}

func listener(fd int) (*net.UnixListener, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, unsupported("fcntl F_DUPFD_CLOEXEC", err)
	}
	file := os.NewFile(uintptr(own), "slots")
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, unsupported("listener", err)
	}
	u, ok := ln.(*net.UnixListener)
	if !ok {
		ln.Close()
		return nil, unsupported("listener", errors.New("not a Unix socket"))
	}
	return u, nil
}

// run accepts connections. All devices at an address do so, and one of them gets each connection.
func (s *server) run(ln *net.UnixListener) {
	defer s.wg.Done()
	for {
		c, err := ln.AcceptUnix()
		switch {
		case err == nil:
			s.answer(c)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		// No descriptor left, most likely.
		t := time.NewTimer(exhaustedPause)
		select {
		case <-t.C:
		case <-s.quit:
			t.Stop()
		}
	}
}

// answer makes the offer and closes. It reads nothing, and the message fits the buffer of a new
// socket, so the peer cannot keep it waiting.
func (s *server) answer(c *net.UnixConn) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	allowed := false
	if raw.Control(func(fd uintptr) { allowed = sameUser(int(fd)) == nil }) != nil || !allowed {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(answerTime))
	_, _, _ = c.WriteMsgUnix(offer(), unix.UnixRights(s.fds...), nil)
}

func (s *server) close() {
	close(s.quit)
	for _, ln := range s.lns {
		ln.Close()
	}
	s.wg.Wait()
}
