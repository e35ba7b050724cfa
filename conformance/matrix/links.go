package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/ib"
)

// A matrix of links says nothing if what it names as a link is not what the packets take. The
// kernel knows what is open at a place.

// ToolLink checks that the stand-ins at a place are on the link of this environment.
func (e *Env) ToolLink(ctx context.Context, subject Host) error {
	port := e.FirstPort
	h, ok := subject.(LocalHost)
	if !ok {
		return nil
	}
	row := Row{Kernel: e.Kernel, Group: "links", Op: "programs are on the link", Role: "server", Link: e.Link}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	s, err := start(ctx, h, "ibv_rc_pingpong", "-p", strconv.Itoa(port))
	if err == nil {
		defer s.Kill()
		if err = h.Listening(ctx, s, port); err == nil {
			err = onLink(h.At, e.Link)
		}
	}
	e.Report.Add(row.ended(err))
	return nil
}

// DeviceLink does the same with the subject's device.
func (e *Env) DeviceLink(context.Context) error {
	if e.At != nil {
		e.Report.Add(e.row("links", "the device is on the link", requester).ended(onLink(e.At, e.Link)))
	}
	return nil
}

// onLink checks what is open at a place.
func onLink(at *lab.Host, want string) error {
	device, err := at.Interface()
	if err != nil {
		return err
	}
	var packet, udpSockets []byte
	err = at.Do(func() error {
		var errs []error
		for _, f := range []struct {
			to   *[]byte
			name string
		}{{&packet, "packet"}, {&udpSockets, "udp"}, {&udpSockets, "udp6"}} {
			b, err := os.ReadFile("/proc/thread-self/net/" + f.name)
			*f.to = append(*f.to, b...)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	if got := linkInUse(device, string(packet), string(udpSockets)); got != want {
		return fmt.Errorf("the link in use is %q, want %q", got, want)
	}
	return nil
}

// linkInUse tells the link from what the kernel says of the interface ("ip -d link"), of packet
// sockets and of UDP sockets. Links that go around UDP may hold its port all the same.
func linkInUse(device, packet, udpSockets string) string {
	switch {
	case strings.Contains(device, "xdp"):
		return "xdp"
	case strings.Count(strings.TrimSpace(packet), "\n") > 0: // below the heading
		return "packet"
	case strings.Contains(udpSockets, fmt.Sprintf(":%04X ", ib.UDPPort)):
		return "udp"
	}
	return ""
}
