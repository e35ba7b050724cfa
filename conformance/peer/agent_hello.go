package peer

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// AgentVersion is that of the protocol. Agent and client must have the same.
const AgentVersion = 1

// AgentHello is what an agent says of itself.
type AgentHello struct {
	Version int
	Agent   string // which program it is: "verbsd", "goroce"
	Kernel  string // such as "6.12.43"
}

// Hello returns what the agent said.
func (c *AgentClient) Hello() AgentHello { return c.hello }

// greet is the first exchange of a session: the agent learns version, token and client, and
// tells what it is.
func (c *AgentClient) greet(a AgentServer) error {
	args := []AgentArg{{"version", AgentVersion}}
	for _, x := range []AgentArg{{"token", a.Token}, {"client", a.Client}} {
		if v := x.Value.(string); v == "" {
			continue
		} else if strings.ContainsAny(v, " \t\r\n") {
			return fmt.Errorf("agent: a %s has no blanks in it", x.Key)
		}
		args = append(args, x)
	}
	r, err := c.Call("hello", args...)
	switch {
	case errors.Is(err, syscall.EPROTO):
		return fmt.Errorf("%w: this program speaks version %d", err, AgentVersion)
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("agent: it is older than version %d of the protocol, which this program speaks: %w",
			AgentVersion, err)
	case err != nil:
		return err
	}
	c.hello = AgentHello{Version: int(r.Num("version")), Agent: r.Str("agent"), Kernel: r.Str("kernel")}
	if c.hello.Version != AgentVersion {
		return fmt.Errorf("agent: it speaks version %s of the protocol, and this program %d",
			r.quoted("version"), AgentVersion)
	}
	return nil
}

// quoted is a value as it was sent, or "none".
func (r AgentReply) quoted(key string) string {
	if v := r.Str(key); v != "" {
		return v
	}
	return "none"
}
