package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"

	"github.com/goroce/goroce/cmd/internal/getopt"
)

// Env is the world of a subcommand, so that tests can run one in their own process.
type Env struct {
	Stdout io.Writer // results
	Stderr io.Writer // remarks and progress
	// Terminal says that Stderr is a terminal, where a progress line makes sense.
	Terminal bool
	// Screen is how Stdout can look.
	Screen Screen
	// Open opens the device; nil is OpenDevice.
	Open OpenFunc
	// Listening, if set, is called with the address of a server's TCP port
	// once clients can connect.
	Listening func(netip.AddrPort)
}

// Command is a subcommand.
type Command struct {
	Name    string
	Summary string
	Run     func(ctx context.Context, env *Env, args []string) error
}

// Text is an "error" that is no failure: the text that -h or -V asks for.
type Text struct{ Text string }

func (t *Text) Error() string { return t.Text }

// Parse applies args to the options of a command and to -h, and returns the operands. If the help
// text is asked for the error is that: usage, and a line for each option.
func Parse(usage string, opts []getopt.Option, args []string) (operands []string, err error) {
	help := false
	opts = append(opts, getopt.Option{Short: 'h', Long: "help", Help: "this text", Set: getopt.Bool(&help)})
	if operands, err = getopt.Parse(opts, args); err == nil && help {
		err = &Text{Text: usage + getopt.Usage(opts)}
	}
	return operands, err
}

// PeerUsage is the usage of a command that is a server, or a client of the host that it is given.
func PeerUsage(name, summary, host string) string {
	return fmt.Sprintf("%s: %s\n\nUsage:\n  roce %s            start a server and wait for a connection\n"+
		"  roce %s %-10s connect to the server at <host>\n\nOptions:\n", name, summary, name, name, host)
}

// Exit is an "error" of a command that has said all there is to say: only the exit status
// is left, which tells scripts.
type Exit struct{ Status int }

func (e *Exit) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// WriteJSON writes v as one line of JSON.
func WriteJSON(w io.Writer, v any) error {
	return json.NewEncoder(w).Encode(v)
}
