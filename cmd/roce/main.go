// Command roce speaks RoCE v2 from user space: a subcommand for each of the usual RDMA tools,
// either side of which may be the original, and a demonstration. "roce help" lists them.
package main

import (
	"os"

	"github.com/goroce/goroce/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
