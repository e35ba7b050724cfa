package tool

import (
	"context"
	"encoding/json"
	"fmt"
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

// Exit is an "error" of a command that has said all there is to say: only the exit status
// is left, which tells scripts.
type Exit struct{ Status int }

func (e *Exit) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// WriteJSON writes v as one line of JSON.
func WriteJSON(w io.Writer, v any) error {
	return json.NewEncoder(w).Encode(v)
}
