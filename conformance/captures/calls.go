package captures

import (
	"context"
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// call is what happens to a connection that rping makes through RDMA-CM.
type call struct {
	attr uint16     // of the message that is hit
	kind ether.Kind // what happens to it
	edit func(*ether.Packet)
	port string // that the client calls; the server is at listenPort
	ends uint16 // the message that ends the exchange; 0: the client's end does
}

const (
	listenPort  = "7174"
	nobodysPort = "7175"
	// callTime covers the timeouts of Linux's CM, 4.3 s each, several times over.
	callTime = 2 * time.Minute
	// hangUpTime is more than the time after which Linux sends a DREQ again.
	hangUpTime = 6 * time.Second
)

// callScenes have messages of RDMA-CM lost, or refused.
func callScenes() []Scene {
	const staleConnection = 10
	lost := func(name string, attr uint16, ends uint16, want [2][]string) Scene {
		return Scene{Name: "lost " + name, Fault: "the " + name + " of RDMA-CM is dropped", Want: want,
			call: &call{attr: attr, kind: ether.Drop, port: listenPort, ends: ends}}
	}
	return []Scene{
		{Name: "clean call", Fault: "none: RDMA-CM connects, two pings, and it hangs up", Want: ends("", ""),
			call: &call{port: listenPort, ends: ether.CMDREP}},
		lost("REQ", ether.CMREQ, ether.CMDREP, ends("cm-lost", "")),
		lost("REP", ether.CMREP, ether.CMDREP, both("cm-lost")),
		lost("RTU", ether.CMRTU, ether.CMDREP, both("cm-lost")),
		lost("DREQ", ether.CMDREQ, ether.CMDREP, ends("cm-lost", "")),
		lost("DREP", ether.CMDREP, ether.CMDREP, both("cm-lost")),
		{Name: "nobody listens", Fault: "RDMA-CM calls a port where nobody listens",
			Want: both("cm-rejected"), call: &call{attr: ether.CMREJ, kind: ether.Observe, port: nobodysPort}},
		{Name: "stale connection", Fault: "the reason of a REJ is changed to \"stale connection\" on the way",
			Want: ends("stale-connection", "cm-rejected"), call: &call{attr: ether.CMREJ, kind: ether.Rewrite,
				port: nobodysPort, edit: func(p *ether.Packet) { p.SetRejectReason(staleConnection) }}},
	}
}

// cm matches a message of RDMA-CM between the two ends.
func (t *take) cm(attr uint16) ether.Match {
	a, b := t.addrs[0], t.addrs[1]
	return ether.Match{AnyPSN: true, Func: func(p *ether.Packet) bool {
		got, _, ok := p.CM()
		return ok && got == attr && (p.Src == a && p.Dst == b || p.Src == b && p.Dst == a)
	}}
}

// dial plays a call between programs: hosts are those of the client and the server.
func (t *take) dial(ctx context.Context, c *call, hosts [2]matrix.Host) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var fault *ether.Rule
	if c.kind != 0 {
		fault = t.markAll(&ether.Rule{Match: t.cm(c.attr), Kind: c.kind, Edit: c.edit})
	}
	last := t.rule(&ether.Rule{Match: t.cm(c.ends), Kind: ether.Observe, Times: -1})
	at := hosts[1].Addr(peer.V4)
	server, err := matrix.Start(ctx, hosts[1], "rping", "-s", "-P", "-v", "-a", at, "-p", listenPort, "-S",
		"64", "-C", "2")
	if err != nil {
		return err
	}
	defer server.Kill()
	if err := hosts[1].ListeningCM(ctx, server, 7174); err != nil {
		return fmt.Errorf("server: %w\n%s", err, server.Output())
	}
	if err := ping(ctx, hosts, c.port); err != nil {
		return fmt.Errorf("%w\nserver:\n%s", err, server.Output())
	}
	if fault != nil {
		if err := waitHits(fault, 1); err != nil {
			return err
		}
	}
	if c.ends == 0 {
		return nil
	}
	// A program that has ended cannot hang up for a second time: its peer waits for ever.
	// Another connection shows that time has gone by.
	if err := waitHitsFor(last, 1, hangUpTime); err == nil {
		return nil
	}
	if err := ping(ctx, hosts, c.port); err != nil {
		return err
	}
	return waitHits(last, 1)
}

// ping calls the server, and hangs up.
func ping(ctx context.Context, hosts [2]matrix.Host, port string) error {
	client, err := matrix.Start(ctx, hosts[0], "rping", "-c", "-v", "-a", hosts[1].Addr(peer.V4), "-p", port,
		"-S", "64", "-C", "2")
	if err != nil {
		return err
	}
	defer client.Kill()
	select {
	case <-client.Done():
	case <-ctx.Done():
		return fmt.Errorf("the client does not end\n%s", client.Output())
	}
	if err := client.Wait(); (err != nil) != (port == nobodysPort) {
		return fmt.Errorf("client: %w\n%s", err, client.Output())
	}
	return nil
}
