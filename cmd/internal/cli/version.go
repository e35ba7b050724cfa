package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
)

// version is what a build stamps: -ldflags "-X
// github.com/goroce/goroce/cmd/internal/cli.version=v1.2.3". Empty in others.
var version string

// Version is what this program was built from, and with.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"` // where version control was asked: not in a release, whose version says it
	Changed bool   `json:"changed,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// current returns the version of this program: what the build stamped, or else what Go recorded:
// the module's version with "go install ...@v1.2.3", the commit in a checkout.
func current() Version {
	info, _ := debug.ReadBuildInfo()
	return from(version, info)
}

func from(stamped string, info *debug.BuildInfo) Version {
	v := Version{Version: stamped, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Changed = s.Value == "true"
			}
		}
		if v.Version == "" {
			v.Version = info.Main.Version
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "unknown"
	}
	return v
}

// String is one line, in the order in which one reads it to somebody.
func (v Version) String() string {
	var b strings.Builder
	b.WriteString("roce " + v.Version)
	if v.Commit != "" {
		b.WriteString(" commit " + v.Commit)
	}
	if v.Changed {
		b.WriteString(" with changes")
	}
	b.WriteString(" (" + v.Go + " " + v.System + ")")
	return b.String()
}

// versionCommand returns the subcommand.
func versionCommand() tool.Command {
	return tool.Command{Name: "version", Summary: "which version this is", Run: func(_ context.Context,
		env *tool.Env, args []string) error {
		var asJSON bool
		operands, err := tool.Parse("version: which version this is\n\nUsage:\n  roce version [options]\n\nOptions:\n",
			[]getopt.Option{
				{Long: "json", Help: "print one JSON object instead of text", Set: getopt.Bool(&asJSON)},
			}, args)
		switch {
		case err != nil:
			return err
		case len(operands) > 0:
			return getopt.Misuse("no operand is expected, not %q", operands)
		case asJSON:
			return tool.WriteJSON(env.Stdout, current())
		}
		return &tool.Text{Text: current().String() + "\n"}
	}}
}
