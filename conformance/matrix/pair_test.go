package matrix

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/peer"
)

// script is a host whose only program ends by itself after a time, or never (0), in a certain way.
type script struct {
	Host
	addr  netip.Addr
	after time.Duration
	err   error
	out   string
}

func (h script) Addr(peer.Family) string { return h.addr.String() }

func (h script) Start(context.Context, []string) (Process, error) {
	p := &scripted{script: h, done: make(chan struct{}), kill: make(chan struct{})}
	go func() {
		defer close(p.done)
		var end <-chan time.Time
		if h.after > 0 {
			end = time.After(h.after)
		}
		select {
		case <-end:
			p.err = h.err
		case <-p.kill:
			p.err = errors.New("killed")
		}
	}()
	return p, nil
}

type scripted struct {
	script
	done, kill chan struct{}
	err        error
}

func (p *scripted) Wait() error           { <-p.done; return p.err }
func (p *scripted) Done() <-chan struct{} { return p.done }
func (p *scripted) Output() string        { return p.out }

func (p *scripted) Kill() {
	close(p.kill)
	<-p.done
}

func TestRunPair(t *testing.T) {
	failed := errors.New("exit status 1")
	const gaveUp = "Failed status transport retry counter exceeded (12)"
	ok := func(after time.Duration) script { return script{after: after, out: "8 bytes"} }
	for name, c := range map[string]struct {
		server, client script
		stays, lossy   bool
		detail         string
		result         Result
		gaveUp         []netip.Addr
		most           time.Duration
	}{
		"both end": {server: ok(2 * time.Second), client: ok(time.Second),
			detail: "8 bytes", result: Pass, most: 2 * time.Second},
		"the server ends first": {server: ok(time.Second), client: ok(time.Minute),
			detail: "8 bytes", result: Pass, most: time.Minute},
		"the server stays": {server: ok(0), client: ok(time.Second), stays: true,
			detail: "8 bytes", result: Pass, most: time.Second},
		"the server fails": {server: script{after: 2 * time.Second, err: failed},
			client: ok(time.Second), detail: "server: exit status 1", result: Fail, most: 2 * time.Second},
		"the server fails, and hangs up": {server: script{after: time.Second, err: failed},
			client: script{after: 2 * time.Second, err: failed}, detail: "client: exit status 1",
			result: Fail, most: 2 * time.Second},
		"the server's retries run out": {server: script{after: time.Second, err: failed, out: gaveUp}, client: ok(0),
			detail: "server: exit status 1", result: Fail, gaveUp: addrs[1:], most: time.Second + partingTime},
		"the client's retries run out": {server: ok(0), client: script{after: time.Second, err: failed, out: gaveUp},
			detail: "client: exit status 1", result: Fail, gaveUp: addrs[:1], most: time.Second},
		"datagrams get lost": {server: ok(0), client: ok(time.Second), lossy: true,
			detail: "server: still runs", result: Fail, most: time.Second + partingTime},
		"the server does not end": {server: ok(0), client: ok(time.Second),
			detail: "server: still runs", result: Fail, most: toolTimeout},
		"the client says the wrong thing": {server: ok(time.Second), client: script{after: time.Second},
			detail: "client: printed no table", result: Fail, most: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), toolTimeout)
				defer cancel()
				c.client.addr, c.server.addr = addrs[0], addrs[1]
				began := time.Now()
				o := runPair(ctx, pairRun{
					family: peer.V4, server: c.server, client: c.client, want: "bytes", stays: c.stays, lossy: c.lossy,
					ready: func(context.Context, Process) error { return nil },
				})
				require.Equal(t, c.result, o.result, o.detail)
				require.Contains(t, o.detail, c.detail)
				require.Equal(t, c.gaveUp, o.gaveUp)
				require.LessOrEqual(t, time.Since(began), c.most)
			})
		})
	}
}
