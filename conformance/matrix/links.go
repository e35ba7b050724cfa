package matrix

import (
	"context"
	"fmt"
	"strconv"
)

// A matrix of links says nothing if what it names as a link is not what the packets take. The
// kernel knows what is open at a place.

// linked is a Host that knows from the kernel which link is in use there.
type linked interface {
	Host
	LinkInUse() (string, error)
}

// ToolLink checks that the stand-ins at a place are on the link of this environment.
func (e *Env) ToolLink(ctx context.Context, subject Host) error {
	port := e.FirstPort
	h, ok := subject.(linked)
	if !ok {
		return nil
	}
	row := Row{Kernel: e.Kernel, Group: "links", Op: "programs are on the link", Role: "server", Link: e.Link}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	s, err := Start(ctx, h, "ibv_rc_pingpong", "-p", strconv.Itoa(port))
	if err == nil {
		defer s.Kill()
		if err = h.Listening(ctx, s, port); err == nil {
			err = onLink(h.LinkInUse, e.Link)
		}
	}
	e.Report.Add(row.ended(err))
	return nil
}

// DeviceLink does the same with the subject's device.
func (e *Env) DeviceLink(context.Context) error {
	if e.LinkInUse != nil {
		e.Report.Add(e.row("links", "the device is on the link", requester).ended(onLink(e.LinkInUse, e.Link)))
	}
	return nil
}

// onLink checks what is open at a place.
func onLink(inUse func() (string, error), want string) error {
	got, err := inUse()
	if err == nil && got != want {
		err = fmt.Errorf("the link in use is %q, want %q", got, want)
	}
	return err
}
