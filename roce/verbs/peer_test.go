package verbs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// Benchmarks measure against a peer in a process of its own, which is this
// test binary started again: with both ends in one process the Go scheduler
// would hand the processor from one to the other, for TCP above all.

const peerEnv = "GOROCE_TEST_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerEnv) != "" {
		if err := peerMain(); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// peerInfo is what the peer says of itself.
type peerInfo struct {
	QPN, PSN uint32
	GID      ib.GID
	Addr     uint64
	RKey     uint32
	TCP      string // address that echoes 64 B messages or takes what comes
}

// peerConfig is what the peer is told.
type peerConfig struct {
	Polling bool
	Spin    time.Duration
	Region  int
	QPN     uint32
	PSN     uint32
	GID     ib.GID
	Self    string
}

// peerMain answers each SEND by one of 64 B, takes WRITEs, and serves TCP, until
// its standard input ends.
func peerMain() error {
	var cfg peerConfig
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	c := Config{Polling: cfg.Polling, Addrs: addrs(cfg.Self)}
	c.Spin = cfg.Spin
	d, err := Open(c)
	if err != nil {
		return err
	}
	defer d.Close()
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	cq, err := d.CreateCQ(1024, nil)
	if err != nil {
		return err
	}
	_, mr, err := pd.AllocBuffer(cfg.Region, AccessAll)
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go serveTCP(l, cfg.Region)
	recv := RecvWR{SGList: []SGE{mr.SGE(0, 64)}}
	if err := qp.Connect(RemoteInfo{ib.QPN(cfg.QPN), ib.PSN(cfg.PSN), cfg.GID}, withTimeout(17, 7)); err != nil {
		return err
	}
	for range 64 {
		if err := qp.PostRecv(&recv); err != nil {
			return err
		}
	}
	info := qp.LocalInfo(0)
	err = json.NewEncoder(os.Stdout).Encode(peerInfo{
		uint32(info.QPN), uint32(info.PSN), info.GID, mr.Addr(), uint32(mr.RKey()), l.Addr().String(),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	send := SendWR{Opcode: WRSend, SGList: []SGE{mr.SGE(64, 64)}}
	var wcs [16]WC
	for {
		n, err := cq.Wait(ctx, wcs[:])
		if err != nil {
			return nil
		}
		for range n {
			if err := qp.PostRecv(&recv); err != nil {
				return err
			}
			if err := qp.PostSend(&send); err != nil {
				return err
			}
		}
	}
}

// serveTCP echoes on connections that begin with 'e' and sinks others into a buffer of n bytes.
func serveTCP(l net.Listener, n int) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var kind [1]byte
			if _, err := io.ReadFull(c, kind[:]); err != nil {
				return
			}
			if kind[0] == 'e' {
				b := make([]byte, 64)
				for {
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}
			buf := make([]byte, n)
			total := 0
			for off := 0; ; off = (off + 1<<20) % n {
				k, err := io.ReadFull(c, buf[off:off+1<<20])
				total += k
				if err != nil {
					break
				}
			}
			_, _ = c.Write([]byte(strconv.Itoa(total)))
		}()
	}
}

// remotePair opens a device here and one in a process of its own.
type remotePair struct {
	*end
	peer peerInfo
}

func newRemotePair(t testing.TB, region int, cfg Config) *remotePair {
	self, other := loopback4(), loopback4()
	cfg.Addrs = addrs(self.String())
	d := openDevice(t, cfg)
	e := newEnd(t, d, region, QPInitAttr{})
	info := e.qp.LocalInfo(0)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		require.NoError(t, cmd.Wait())
	})
	require.NoError(t, json.NewEncoder(in).Encode(peerConfig{
		cfg.Polling, cfg.Spin, region, uint32(info.QPN), uint32(info.PSN), info.GID, other.String(),
	}))
	p := &remotePair{end: e}
	require.NoError(t, json.NewDecoder(out).Decode(&p.peer))
	require.NoError(t, e.qp.Connect(RemoteInfo{ib.QPN(p.peer.QPN), ib.PSN(p.peer.PSN), p.peer.GID}, withTimeout(17, 7)))
	return p
}
