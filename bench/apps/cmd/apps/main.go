// Command apps runs the applications of this module on this machine, in processes of their own,
// and measures them over goroce and over TCP in turn.
//
//	apps reduce           all-reduce: microseconds a call, by size, over RoCE and TCP
//	apps reduce -kill     kill a member, and see how soon the others have an error
//	apps params           a parameter server: microseconds a step, by size, over RoCE and TCP
//	apps params -kill     kill a worker, and see how soon the others have an error
//	apps raft             commits a second of a replicated log, over three transports
//	apps raft -kill 100   kill and stop its servers, and check what clients saw
//	apps report           most of them over goroce and TCP, with free CPUs and with contended ones
//	apps scale            all-reduce on hundreds of hosts of a simulated fat tree
//	apps logs             hundreds of replicated logs at once on such a fat tree
//	apps flows            flows of many sizes between random hosts of that tree
//	apps store            blocks on two replicas, checked
//	apps store -kill 100  cut the power of its replicas and clients
//	apps cache            GETs a second by READ of the server's memory, and by messages
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

// commands are what main knows, by name.
var commands = map[string]func(ctx context.Context, args []string) error{
	"cache":  cacheMain,
	"flows":  flowsMain,
	"logs":   logsMain,
	"params": paramsMain,
	"raft":   raftMain,
	"reduce": reduceMain,
	"report": reportMain,
	"scale":  scaleMain,
	"spin":   spinMain,
	"store":  storeMain,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: apps cache|flows|logs|params|raft|reduce|report|scale|store [-h]")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "apps:", err)
		os.Exit(1)
	}
}
