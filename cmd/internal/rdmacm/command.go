package rdmacm

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
)

// Commands returns the subcommands of this package.
func Commands() []tool.Command {
	return []tool.Command{
		command("rping", "ping and pong over RDMA-CM with READ and WRITE, as rping", newPing),
		command("ucmatose", "many connections with messages each way, as ucmatose", newCmatose),
		command("udaddy", "datagram queue pairs that RDMA-CM introduces, as udaddy", newUdaddy),
		command("mckey", "messages to a multicast group, as mckey", newMckey),
		command("cmtime", "how long connecting takes, step by step, as cmtime", newTiming),
		command("rdma_server", "one message each way, as rdma_server", newEndpointServer),
		command("rdma_client", "one message each way, as rdma_client", newEndpointClient),
		command("rstream", "streams over rsocket back and forth, as rstream", newStream),
		command("riostream", "writes into mappings over rsocket back and forth, as riostream", newMappedStream),
	}
}

// program is one tool's options and what it does.
type program interface {
	// options is the table; usage the lines that show how to call the tool.
	options() []getopt.Option
	usage() []string
	device() *tool.DeviceOptions
	// check looks at the options as a whole.
	check() error
	run(ctx context.Context, env *tool.Env) error
}

// command makes a subcommand of a program.
func command(name, summary string, create func() program) tool.Command {
	return tool.Command{Name: name, Summary: summary, Run: func(ctx context.Context, env *tool.Env,
		args []string) error {
		p := create()
		if err := parse(name, summary, p, args); err != nil {
			return err
		}
		return p.run(ctx, env)
	}}
}

// parse reads a command line. A request for help comes back as a *tool.Text.
func parse(name, summary string, p program, args []string) error {
	table := p.options()
	for _, o := range p.device().Options() {
		o.Short = 0 // the originals use most letters, -d among them
		table = append(table, o)
	}
	text := fmt.Sprintf("%s: %s\n\nUsage:\n", name, summary)
	for _, u := range p.usage() {
		text += fmt.Sprintf("  roce %s %s\n", name, u)
	}
	operands, err := tool.Parse(text+"\nOptions:\n", table, args)
	switch {
	case err != nil:
		return err
	case len(operands) > 0:
		return &getopt.Error{Option: operands[0], Reason: "is no option; addresses are given with one"}
	}
	return p.check()
}
