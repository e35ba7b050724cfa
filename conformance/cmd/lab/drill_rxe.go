package main

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/peer"
)

// rxeSilence is the least time to listen to an emulated guest, which may have no CPU for a while.
const rxeSilence = 300 * time.Millisecond

// firstRxePort is where the programs that listen for the drills begin.
const firstRxePort = 21000

// newRxe returns a target for the kernel's rdma_rxe in a guest of the lab. The drill's end is a
// Host of the lab of its own.
func newRxe(ctx context.Context, l *lab.Lab, p *hosts.RXE) (drill.Target, error) {
	h, err := l.AddHost()
	if err != nil {
		return nil, err
	}
	stranger, err := addStranger(ctx, l, h)
	if err != nil {
		return nil, err
	}
	r := &rxe{p: p, ctx: ctx}
	r.port.Store(firstRxePort)
	return drill.NewPeer(drill.PeerConfig{
		Name: p.Name(), Profile: drill.Profile("rxe-" + p.Guest().Image.KernelName()), Peer: p,
		Local:    map[peer.Family]netip.Addr{peer.V4: h.Addr4, peer.V6: h.Addr6},
		Stranger: map[peer.Family]netip.Addr{peer.V4: stranger},
		Place:    h.Do, RxeFlush: true, Silence: rxeSilence, Listen: r.listen, Uplink: r.uplink,
	})
}

// strangerOffset is how far a Host's second address is from its first one.
const strangerOffset = 64

// addStranger gives a Host a second address.
func addStranger(ctx context.Context, l *lab.Lab, h *lab.Host) (netip.Addr, error) {
	b := h.Addr4.As4()
	b[3] += strangerOffset
	a := netip.AddrFrom4(b)
	cmd := l.Command(ctx, "ip", "addr", "add", a.String()+"/24", "dev", h.Name)
	if err := h.Start(cmd); err != nil {
		return a, err
	}
	return a, cmd.Wait()
}

type rxe struct {
	p    *hosts.RXE
	ctx  context.Context
	port atomic.Int32
}

// listen runs a program of librdmacm in the guest that accepts what comes.
func (r *rxe) listen(t peer.Type) (int, func() error, error) {
	port := int(r.port.Add(1))
	argv := []string{"rping", "-s", "-P", "-p", strconv.Itoa(port), "-a", r.p.Addr(peer.V4).String()}
	if t == peer.UD {
		port = udaddyPort
		argv = []string{"udaddy", "-b", r.p.Addr(peer.V4).String()}
	}
	proc, err := r.p.Guest().Start(r.ctx, lab.Cmd{Argv: argv})
	if err != nil {
		return 0, nil, err
	}
	stop := func() error {
		proc.Kill()
		return nil
	}
	if err := r.listening(proc, port); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	return port, stop, nil
}

// uplink has the guest drop long frames: a token bucket whose burst they exceed tells the sender at
// once that it has dropped them, as a full queue does. The management network is another interface.
func (r *rxe) uplink(most int) error {
	qdisc := "pfifo limit 10000" // as the lab has it
	if most > 0 {
		qdisc = fmt.Sprintf("tbf rate 1gbit burst %d limit 1000000", most)
	}
	script := fmt.Sprintf("modprobe sch_tbf && /usr/bin/tc qdisc replace dev eth0 root %s", qdisc)
	if out, err := r.p.Guest().Run(r.ctx, "sh", "-c", script); err != nil {
		return fmt.Errorf("%s: %w: %s", qdisc, err, out)
	}
	return nil
}

// udaddyPort is the port that udaddy listens on.
const udaddyPort = 7174

// listenWait is how long a program in a guest may take to listen.
const listenWait = time.Minute

// listening waits until the guest's kernel has a listener at a port.
func (r *rxe) listening(p *lab.Proc, port int) error {
	ctx, cancel := context.WithTimeout(r.ctx, listenWait)
	defer cancel()
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		text, err := r.p.Guest().Run(ctx, "rdma", "resource", "show", "cm_id")
		if err != nil {
			return err
		}
		for l := range strings.Lines(text) {
			if strings.Contains(l, "state LISTEN") &&
				strings.Contains(strings.TrimSpace(l)+" ", fmt.Sprintf(":%d ", port)) {
				return nil
			}
		}
		select {
		case <-p.Done():
			return fmt.Errorf("it has ended: %w\n%s", p.Wait(), p.Output())
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
}
