// Command apps runs the applications of this module on this machine, in processes of their own,
// and measures them over goroce and over TCP in turn.
//
//	apps reduce           all-reduce: microseconds a call, by size, over RoCE and TCP
//	apps reduce -kill     kill a member, and see how soon the others have an error
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

// commands are what main knows, by name.
var commands = map[string]func(ctx context.Context, args []string) error{
	"reduce": reduceMain,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: apps reduce [-h]")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "apps:", err)
		os.Exit(1)
	}
}
