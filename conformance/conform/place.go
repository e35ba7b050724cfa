package conform

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// clientName makes a name under which this run's sessions belong together.
func clientName() (string, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return hex.EncodeToString(b[:]), err
}

// lastClient is how long an agent may take to see that its last client has gone.
const (
	lastClient = 5 * time.Second
	lookAgain  = 50 * time.Millisecond
)

// newAgent is peer.NewAgent for an agent that may be about to end the sessions of another run.
func newAgent(ctx context.Context, at peer.AgentPlace) (*peer.Agent, error) {
	for end := time.Now().Add(lastClient); ; {
		p, err := peer.NewAgent(ctx, at)
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lookAgain):
		}
	}
}

// byFamily returns the first address of each family.
func byFamily(addrs []netip.Addr) (v4, v6 netip.Addr) {
	for _, a := range addrs {
		switch a = a.Unmap(); {
		case a.Is4() && !v4.IsValid():
			v4 = a
		case a.Is6() && !v6.IsValid():
			v6 = a
		}
	}
	return v4, v6
}

// locals returns the addresses here from which the peer's are reached.
func (o *Options) locals(ref *peer.Agent) (v4, v6 netip.Addr, err error) {
	if v4, v6 = byFamily(o.Addrs); len(o.Addrs) == 0 {
		v4, v6 = routeTo(ref.Addr(peer.V4)), routeTo(ref.Addr(peer.V6))
	}
	if !ref.Addr(peer.V4).IsValid() {
		v4 = netip.Addr{}
	}
	if !ref.Addr(peer.V6).IsValid() {
		v6 = netip.Addr{}
	}
	if !v4.IsValid() && !v6.IsValid() {
		return v4, v6, fmt.Errorf(
			"conform: no address here reaches %s, which has %v and %v: name one of each family that both sides have",
			ref.Name(), ref.Addr(peer.V4), ref.Addr(peer.V6))
	}
	return v4, v6, nil
}

// routeTo asks the kernel from which address it would send to another one. Connecting a UDP socket
// sends nothing.
func routeTo(a netip.Addr) netip.Addr {
	if !a.IsValid() {
		return a
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, ib.UDPPort)))
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
}

// addrs are the valid ones of some addresses, in words.
func addrs(all ...netip.Addr) string {
	var out []string
	for _, a := range all {
		if a.IsValid() {
			out = append(out, a.String())
		}
	}
	return strings.Join(out, " and ")
}
