package tool

import (
	"context"
	"encoding/json"
	"io"
	"net/netip"
)

// Env is the world of a subcommand, so that tests can run one in their own
// process.
type Env struct {
	Stdout io.Writer // results
	Stderr io.Writer // remarks and progress
	// Terminal says that Stderr is a terminal, where a progress line makes
	// sense.
	Terminal bool
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

// WriteJSON writes v as one line of JSON.
func WriteJSON(w io.Writer, v any) error {
	return json.NewEncoder(w).Encode(v)
}
