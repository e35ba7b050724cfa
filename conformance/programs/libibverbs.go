package programs

import (
	"context"
	"fmt"
	"strings"
)

// verbsCases are the programs of libibverbs.
func verbsCases() []Case {
	all := []Case{
		{Program: "ibv_devices", Client: []string{"ibv_devices"}, Check: has("goroce0"), Quick: true},
		{Program: "ibv_devinfo", Client: []string{"ibv_devinfo"},
			Check: has("hca_id:\tgoroce0", "PORT_ACTIVE", "link_layer:\t\tEthernet"), Quick: true},
		{Program: "ibv_devinfo", Label: "-v", Client: []string{"ibv_devinfo", "-v"},
			Check: has("max_qp:", "GID[  0]:\t\t::ffff:", "RoCE v2")},
		{Program: "ibv_devinfo", Label: "-v, IPv6", Client: []string{"ibv_devinfo", "-v"}, V6: true,
			Check: has("fd97::", "RoCE v2")},
		{Program: "ibv_devinfo", Label: "-d of a device that is not there",
			Client: []string{"ibv_devinfo", "-d", "nothing"}, Refused: "IB device 'nothing' wasn't found"},
		{
			Program: "ibv_asyncwatch", Label: "the link goes down and up",
			Client: []string{"stdbuf", "-oL", "ibv_asyncwatch"}, Ready: "async event FD",
			While: func(ctx context.Context, n *Net, p *Process) error {
				if err := n.SetUp(0, false); err != nil {
					return err
				}
				if err := p.WaitOutput(ctx, "(10), port 1"); err != nil {
					return err
				}
				if err := n.SetUp(0, true); err != nil {
					return err
				}
				if err := p.WaitOutput(ctx, "(9), port 1"); err != nil {
					return err
				}
				return terminate(ctx, p)
			},
			Quick: true,
		},
	}
	pingpong := func(kind, args string, more ...func(*Case)) {
		c := Case{
			Program: "ibv_" + kind + "_pingpong", Label: args, Port: perftestPort,
			// -c compares the data; what they print does not depend on it.
			Check: bothHave("iters in", "bytes in"), OneAddress: args == "-c",
		}
		argv := append([]string{c.Program, "-g", "0", "-n", "200"}, strings.Fields(args)...)
		c.Server, c.Client = argv, append(argv[:len(argv):len(argv)], "TCP")
		for _, m := range more {
			m(&c)
		}
		all = append(all, c)
	}
	quick := func(c *Case) { c.Quick = true }
	v6 := func(c *Case) { c.V6, c.Label = true, c.Label+", IPv6" }
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		pingpong(kind, "-c", quick)
		pingpong(kind, "-c", v6)
		pingpong(kind, "-e -c")
		pingpong(kind, "-s 1 -c")
	}
	for _, kind := range []string{"rc", "uc", "srq"} {
		pingpong(kind, "-s 1048576 -m 4096 -c")
	}
	pingpong("rc", "-N -c", quick)
	pingpong("rc", "-N -e -c")
	pingpong("srq", "-q 16 -c")
	// The words of the programs themselves, when the device says that it cannot.
	pingpong("rc", "-o", refused("isn't ODP capable"))
	pingpong("rc", "-O", refused("isn't ODP capable"))
	pingpong("rc", "-t", refused("isn't completion timestamp capable"))
	pingpong("rc", "-j", refused("doesn't support dm allocation"))
	pingpong("xsrq", "", refused("Couldn't"))
	for i := range all {
		all[i].Group = groupVerbs
	}
	return all
}

// has wants all of texts in what the client, or the program by itself, has printed.
func has(texts ...string) func(string, string) error {
	return func(_, client string) error { return contains("client", client, texts) }
}

// bothHave wants all of texts from both sides.
func bothHave(texts ...string) func(string, string) error {
	return func(server, client string) error {
		if err := contains("server", server, texts); err != nil {
			return err
		}
		return contains("client", client, texts)
	}
}

func contains(who, out string, texts []string) error {
	for _, t := range texts {
		if !strings.Contains(out, t) {
			return fmt.Errorf("%s has not printed %q", who, t)
		}
	}
	return nil
}
