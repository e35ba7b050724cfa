package cli

import (
	"context"
	_ "embed"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
)

// Bash is the completion of roce for bash. It asks roce for its tools and options, so that it is
// right for any version.
//
//go:embed roce.bash
var Bash string

// Zsh is that for zsh.
//
//go:embed roce.zsh
var Zsh string

const completionUsage = `completion: tools and options of roce completed by the shell

Usage:
  roce completion bash
  roce completion zsh

The packages install it. Otherwise, for a shell of your own:
  source <(roce completion bash)                        in ~/.bashrc
  roce completion zsh > DIR/_roce                       with a DIR that is in $fpath

Options:
`

// completionCommand returns the subcommand.
func completionCommand() tool.Command {
	return tool.Command{Name: "completion", Summary: "tools and options completed by bash or zsh",
		Run: func(_ context.Context, _ *tool.Env, args []string) error {
			operands, err := tool.Parse(completionUsage, nil, args)
			switch {
			case err != nil:
				return err
			case len(operands) == 1 && operands[0] == "bash":
				return &tool.Text{Text: Bash}
			case len(operands) == 1 && operands[0] == "zsh":
				return &tool.Text{Text: Zsh}
			}
			return getopt.Misuse("bash or zsh is expected, not %q", operands)
		}}
}
