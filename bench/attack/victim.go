package attack

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

const (
	memoryBytes   = 4 << 20 // that the server shares with each client
	transferBytes = 64 << 10
	transferDepth = 8 // WRITEs at a time
	dialTime      = 20 * time.Second
	dialPause     = 20 * time.Millisecond
)

// serve shares memory with all who connect.
func (c *child) serve(ctx context.Context) (err error) {
	if c.dev, err = c.open(c.Server); err != nil {
		return err
	}
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: c.dev}}
	l, err := lc.ListenAddr(netip.AddrPortFrom(c.Server, servicePort))
	if err != nil {
		return err
	}
	memory := make([]byte, memoryBytes)
	go func() {
		_ = l.Serve(ctx, func(ctx context.Context, conn *roce.Conn) error {
			defer conn.Close()
			if _, err := conn.Share(ctx, memory, verbs.AccessAll); err != nil {
				return err
			}
			_, err := conn.RecvMsg(ctx) // nothing comes, until the client hangs up
			return err
		})
	}()
	return nil
}

// ask does what clients do in the row.
func (c *child) ask(ctx context.Context) (err error) {
	if c.dev, err = c.open(c.Client); err != nil {
		return err
	}
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: c.dev}}
	to := netip.AddrPortFrom(c.Server, servicePort)
	dial, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := d.DialAddr(dial, to)
	if err != nil {
		return err
	}
	remote, err := conn.Shared(dial)
	if err != nil {
		return err
	}
	mr, err := conn.Register(make([]byte, readBytes), verbs.AccessAll)
	if err != nil {
		return err
	}
	if c.known, err = c.numbers(conn.QP()); err != nil {
		return err
	}
	c.known.Addr, c.known.RKey = remote.Addr, remote.RKey
	switch c.attack().Does {
	case transfers:
		go c.transfer(ctx, conn, remote, mr)
	case dials:
		go c.dial(ctx, d, to)
	case idles:
		p, err := conn.StartRead(dial, remote, mr.SGE(0, readBytes))
		if err != nil {
			return err
		}
		return p.Wait(dial)
	default:
		return fmt.Errorf("nothing like %q is done", c.attack().Does)
	}
	return nil
}

// transfer writes until the connection ends.
func (c *child) transfer(ctx context.Context, conn *roce.Conn, to roce.RemoteMemory, mr *verbs.MR) {
	var q []*roce.Pending
	var ends []func()
	for {
		end := c.begin()
		p, err := conn.StartWrite(ctx, to, mr.SGE(0, transferBytes))
		if err == nil {
			q, ends = append(q, p), append(ends, end)
			if len(q) < transferDepth {
				continue
			}
			err = q[0].Wait(ctx)
		}
		if err != nil {
			c.end(err)
			return
		}
		ends[0]()
		q, ends = q[1:], ends[1:]
		c.ops.Add(1)
		c.bytes.Add(transferBytes)
	}
}

// dial makes one connection after the other.
func (c *child) dial(ctx context.Context, d roce.Dialer, to netip.AddrPort) {
	for {
		end := c.begin()
		one, cancel := context.WithTimeout(ctx, dialTime)
		conn, err := d.DialAddr(one, to)
		cancel()
		end()
		if err != nil {
			c.failed.Add(1)
		} else {
			c.ops.Add(1)
			conn.Close()
		}
		time.Sleep(dialPause) // the load is light
	}
}
