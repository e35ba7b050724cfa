package getopt

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

type values struct {
	all, force bool
	n          int
	size       string
	duration   int
}

func table(v *values) []Option {
	return []Option{
		{Short: 'a', Long: "all", Help: "all sizes", Set: Bool(&v.all)},
		{Short: 'F', Long: "CPU-freq", Help: "no warning", Set: Bool(&v.force)},
		{Short: 'n', Long: "iters", Arg: "n", Help: "how many", Set: Int(&v.n, 1, 100000)},
		{Short: 's', Arg: "size", Help: "bytes", Set: String(&v.size)},
		{Long: "duration", Arg: "seconds", Set: Int(&v.duration, 1, 100)},
		{Long: "dualport", Set: Unsupported("one port")},
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		args string
		want values
		rest []string
	}{
		{"nothing", "", values{}, nil},
		{"short", "-a -n 5", values{all: true, n: 5}, nil},
		{"grouped", "-aFn5", values{all: true, force: true, n: 5}, nil},
		{"hexadecimal", "-n 0x10", values{n: 16}, nil},
		{"octal", "-n 010", values{n: 8}, nil},
		{"long", "--iters=7 --all", values{all: true, n: 7}, nil},
		{"long, separate", "--iters 7", values{n: 7}, nil},
		{"abbreviated", "--dura=3", values{duration: 3}, nil},
		{"operand first", "host -a", values{all: true}, []string{"host"}},
		{"operand between", "-a host -n 3", values{all: true, n: 3}, []string{"host"}},
		{"end of options", "-a -- -n", values{all: true}, []string{"-n"}},
		{"a dash is an operand", "-", values{}, []string{"-"}},
		{"value that looks like an option", "-s -a", values{size: "-a"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v values
			rest, err := Parse(table(&v), strings.Fields(c.args))
			if err != nil {
				t.Fatal(err)
			}
			if v != c.want || !slices.Equal(rest, c.rest) {
				t.Errorf("got %+v %q, want %+v %q", v, rest, c.want, c.rest)
			}
		})
	}
}

// A command that runs another one leaves that one its options.
func TestParseLeading(t *testing.T) {
	for args, want := range map[string][]string{
		"-n 3 ls -a":    {"ls", "-a"},
		"-n 3 -- ls -a": {"ls", "-a"},
		"-n3 ls -- -a":  {"ls", "--", "-a"},
		"-n 3":          nil,
	} {
		var v values
		rest, err := ParseLeading(table(&v), strings.Fields(args))
		if err != nil || v != (values{n: 3}) || !slices.Equal(rest, want) {
			t.Errorf("%s: %+v %q %v", args, v, rest, err)
		}
	}
	var v values
	if _, err := ParseLeading(table(&v), []string{"-z", "ls"}); err == nil {
		t.Error("an unknown option before the command was taken")
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-z":           "option -z: unknown",
		"-az":          "option -z: unknown",
		"--nothing":    "option --nothing: unknown",
		"--=3":         "option --: unknown",
		"--du 3":       "option --du: ambiguous",
		"-n":           "option -n/--iters: needs a value: n",
		"--iters":      "option -n/--iters: needs a value: n",
		"--all=1":      "option -a/--all: takes no value",
		"-n x":         `option -n/--iters: "x" is not a whole number`,
		"-n 0":         "option -n/--iters: 0 is not within 1 to 100000",
		"--dualport":   "option --dualport: not supported: one port",
		"--duration=z": `option --duration: "z" is not a whole number`,
	} {
		var v values
		_, err := Parse(table(&v), strings.Fields(args))
		var pe *Error
		if !errors.As(err, &pe) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

func TestUsage(t *testing.T) {
	want := "" +
		"  -a, --all                        all sizes\n" +
		"  -F, --CPU-freq                   no warning\n" +
		"  -n, --iters=<n>                  how many\n" +
		"  -s=<size>                        bytes\n"
	if got := Usage(table(new(values))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-aFn5\x00--iters=7\x00--\x00x")
	f.Fuzz(func(t *testing.T, line string) {
		var v values
		args := strings.Split(line, "\x00")
		rest, err := Parse(table(&v), args)
		if err == nil && len(rest) > len(args) {
			t.Errorf("%d operands from %d arguments", len(rest), len(args))
		}
		if err == nil && v.n != 0 && (v.n < 1 || v.n > 100000) {
			t.Errorf("n = %d is out of its range", v.n)
		}
	})
}
