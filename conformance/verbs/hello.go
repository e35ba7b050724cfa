package verbs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Version is that of the protocol. Agent and client must have the same.
const Version = 1

// Hello is what an agent says of itself.
type Hello struct {
	Version int
	Agent   string // which program it is: "verbsd", "goroce"
	Kernel  string // such as "6.12.43"
	Devices []string
}

// Hello returns what the agent said.
func (c *Client) Hello() Hello { return c.hello }

// greet is the first exchange of a session: the agent learns version, token and client, and
// tells what it is.
func (c *Client) greet(a Agent) error {
	args := []Arg{{"version", Version}}
	for _, x := range []Arg{{"token", a.Token}, {"client", a.Client}} {
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
		return fmt.Errorf("%w: this program speaks version %d", err, Version)
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("agent: it is older than version %d of the protocol, which this program speaks: %w", Version, err)
	case err != nil:
		return err
	}
	c.hello = Hello{Version: int(r.Num("version")), Agent: r.Str("agent"), Kernel: r.Str("kernel"), Devices: r.All("device")}
	if c.hello.Version != Version {
		return fmt.Errorf("agent: it speaks version %s of the protocol, and this program %d", r.quoted("version"), Version)
	}
	return nil
}

// quoted is a value as it was sent, or "none".
func (r Reply) quoted(key string) string {
	if v := r.Str(key); v != "" {
		return v
	}
	return "none"
}
