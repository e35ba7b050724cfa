package cli

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// running is a tool at work.
type running struct {
	addr      string
	stop      context.CancelCauseFunc
	opened    chan *verbs.Device
	listening chan netip.AddrPort
	status    chan int
	output    toolcheck.Output
}

// begin starts a tool; LOCAL in the arguments stands for its address.
func begin(t *testing.T, args string) *running {
	ctx, stop := context.WithCancelCause(context.Background())
	r := &running{
		addr: toolcheck.Addr(t).String(), stop: stop,
		opened: make(chan *verbs.Device, 1), listening: make(chan netip.AddrPort, 1), status: make(chan int, 1),
	}
	env := &tool.Env{Stdout: &r.output, Stderr: &r.output, Listening: func(a netip.AddrPort) { r.listening <- a }}
	env.Open = func(cfg verbs.Config) (*verbs.Device, func() error, error) {
		dev, release, err := tool.OpenDevice(cfg)
		if err == nil {
			r.opened <- dev
		}
		return dev, release, err
	}
	argv := strings.Fields(strings.ReplaceAll(args, "LOCAL", r.addr))
	argv = append([]string{argv[0], "--addr", r.addr}, argv[1:]...)
	go func() { r.status <- Run(ctx, env, argv) }()
	t.Cleanup(func() { stop(errInterrupted) })
	return r
}

// at waits until a server listens.
func (r *running) at(t *testing.T) netip.AddrPort {
	select {
	case a := <-r.listening:
		return a
	case s := <-r.status:
		t.Fatalf("it has ended: %d: %s", s, r.output.String())
	}
	return netip.AddrPort{}
}

// busy waits until both devices have received so many packets.
func busy(t *testing.T, both ...*running) {
	const packets = 100
	for _, r := range both {
		select {
		case dev := <-r.opened:
			for dev.Counters().RcvdPkts < packets {
				select {
				case s := <-r.status:
					t.Fatalf("it has ended: %d: %s", s, r.output.String())
				default:
					runtime.Gosched()
				}
			}
		case s := <-r.status:
			t.Fatalf("it has ended: %d: %s", s, r.output.String())
		}
	}
}

// A server that is interrupted while it waits says so, too.
func TestInterruptedWhileWaiting(t *testing.T) {
	for _, args := range []string{
		"rping -s -a LOCAL -p 0", "rping -s -P -a LOCAL -p 0", "ucmatose -b LOCAL -p 0", "udaddy -b LOCAL",
		"mckey -b LOCAL -m 239.1.2.3", "cmtime -b LOCAL", "rdma_server -s LOCAL -p 0",
		"rstream -b LOCAL -p 0", "riostream -b LOCAL -p 0", "write_bw -R -p 0", "send_lat -R -p 0",
		"read_lat -z -p 0", "srq_pingpong -p 0",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			r := begin(t, args)
			r.at(t)
			r.stop(errInterrupted)
			require.Equal(t, exitInterrupted, <-r.status, r.output.String())
			require.Contains(t, r.output.String(), ": interrupted\n")
		})
	}
}

// A side that is interrupted in the middle says so and hangs up: the other side
// ends by itself, because it was told, and not after its retries.
func TestInterruptedInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		name, server, client string
	}{
		{"rping", "-s -a LOCAL -p 0", "-c -a SERVER -p PORT"},
		{"rstream", "-b LOCAL -p 0 -S 100 -C 1000000000", "-s SERVER -p PORT -S 100 -C 1000000000"},
		{"riostream", "-b LOCAL -p 0 -S 100 -C 1000000000", "-s SERVER -p PORT -S 100 -C 1000000000"},
		{"write_bw", "-R -D 1000 -p 0 -u 18", "-R -D 1000 -p PORT -u 18 SERVER"},
		{"send_bw", "-R -D 1000 -p 0 -u 18", "-R -D 1000 -p PORT -u 18 SERVER"},
		{"send_lat", "-R -D 1000 -p 0 -u 18", "-R -D 1000 -p PORT -u 18 SERVER"},
		{"read_bw", "-R -D 1000 -p 0 -u 18", "-R -D 1000 -p PORT -u 18 SERVER"},
	} {
		for _, who := range []string{"server", "client"} {
			t.Run(fmt.Sprintf("%s %s", c.name, who), func(t *testing.T) {
				t.Parallel()
				server := begin(t, c.name+" "+c.server)
				at := server.at(t)
				client := begin(t, c.name+" "+
					strings.NewReplacer("SERVER", at.Addr().String(), "PORT", fmt.Sprint(at.Port())).Replace(c.client))
				busy(t, server, client)
				victim, other := server, client
				if who == "client" {
					victim, other = client, server
				}
				victim.stop(errInterrupted)
				require.Equal(t, exitInterrupted, <-victim.status, victim.output.String())
				<-other.status
				require.NotContains(t, other.output.String(), "retry counter exceeded", "it was not told")
			})
		}
	}
}
