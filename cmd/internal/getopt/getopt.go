package getopt

import (
	"fmt"
	"strings"
)

// Option is one option of a command.
type Option struct {
	Short byte   // 0 if it has no short form
	Long  string // without the dashes; empty if it has no long form
	// Arg names the option's value in the help text; an option without a value has an empty Arg.
	Arg  string
	Help string // one line; an option without help is left out of Usage
	// Set takes the value; "" for an option that has none. Its error is
	// reported with the option's name in front.
	Set func(value string) error
}

// Name returns the option as a user types it, for messages.
func (o *Option) Name() string {
	switch {
	case o.Short != 0 && o.Long != "":
		return fmt.Sprintf("-%c/--%s", o.Short, o.Long)
	case o.Short != 0:
		return fmt.Sprintf("-%c", o.Short)
	}
	return "--" + o.Long
}

// Error is a command line that cannot be understood.
type Error struct {
	Option string // as typed or as declared; empty if it is about several, or none
	Reason string
	Err    error // what Option.Set returned, if it did
}

// Misuse returns an *Error about options that are right one by one, or about operands.
func Misuse(format string, args ...any) error { return &Error{Err: fmt.Errorf(format, args...)} }

func (e *Error) Error() string {
	if e.Option == "" {
		return e.Err.Error()
	}
	if e.Err != nil {
		return fmt.Sprintf("option %s: %v", e.Option, e.Err)
	}
	return fmt.Sprintf("option %s: %s", e.Option, e.Reason)
}

func (e *Error) Unwrap() error { return e.Err }

// Parse applies args to opts and returns the operands in order. It stops at
// the first error, which is an *Error.
func Parse(opts []Option, args []string) (operands []string, err error) {
	return parse(opts, args, false)
}

// ParseLeading is Parse for a command that runs another one: from the first operand on, everything
// is an operand.
func ParseLeading(opts []Option, args []string) (operands []string, err error) {
	return parse(opts, args, true)
}

func parse(opts []Option, args []string, leading bool) (operands []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return append(operands, args...), nil
		case strings.HasPrefix(arg, "--"):
			args, err = parseLong(opts, arg[2:], args)
		case len(arg) > 1 && arg[0] == '-':
			args, err = parseShort(opts, arg[1:], args)
		case leading:
			return append([]string{arg}, args...), nil
		default:
			operands = append(operands, arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return operands, nil
}

func parseLong(opts []Option, text string, rest []string) ([]string, error) {
	name, value, joined := strings.Cut(text, "=")
	opt, err := findLong(opts, name)
	if err != nil {
		return nil, err
	}
	if opt.Arg == "" {
		if joined {
			return nil, &Error{Option: opt.Name(), Reason: "takes no value"}
		}
		return rest, set(opt, "")
	}
	if !joined {
		if len(rest) == 0 {
			return nil, &Error{Option: opt.Name(), Reason: "needs a value: " + opt.Arg}
		}
		value, rest = rest[0], rest[1:]
	}
	return rest, set(opt, value)
}

// findLong returns the option called name, or the only one that starts so.
func findLong(opts []Option, name string) (*Option, error) {
	var found *Option
	matches := 0
	for i := range opts {
		if opts[i].Long == "" || !strings.HasPrefix(opts[i].Long, name) {
			continue
		}
		if opts[i].Long == name {
			return &opts[i], nil
		}
		found = &opts[i]
		matches++
	}
	switch {
	case name == "" || matches == 0:
		return nil, &Error{Option: "--" + name, Reason: "unknown"}
	case matches > 1:
		return nil, &Error{Option: "--" + name, Reason: "ambiguous"}
	}
	return found, nil
}

func parseShort(opts []Option, letters string, rest []string) ([]string, error) {
	for i := 0; i < len(letters); i++ {
		opt := findShort(opts, letters[i])
		if opt == nil {
			return nil, &Error{Option: fmt.Sprintf("-%c", letters[i]), Reason: "unknown"}
		}
		if opt.Arg == "" {
			if err := set(opt, ""); err != nil {
				return nil, err
			}
			continue
		}
		value := letters[i+1:]
		if value == "" {
			if len(rest) == 0 {
				return nil, &Error{Option: opt.Name(), Reason: "needs a value: " + opt.Arg}
			}
			value, rest = rest[0], rest[1:]
		}
		return rest, set(opt, value)
	}
	return rest, nil
}

func findShort(opts []Option, letter byte) *Option {
	for i := range opts {
		if opts[i].Short != 0 && opts[i].Short == letter {
			return &opts[i]
		}
	}
	return nil
}

func set(opt *Option, value string) error {
	if opt.Set == nil {
		return nil
	}
	if err := opt.Set(value); err != nil {
		return &Error{Option: opt.Name(), Err: err}
	}
	return nil
}

// Usage returns the help text of opts, one line each.
func Usage(opts []Option) string {
	var b strings.Builder
	for i := range opts {
		o := &opts[i]
		if o.Help == "" {
			continue
		}
		left := "      "
		if o.Short != 0 {
			left = fmt.Sprintf("  -%c", o.Short)
			if o.Long != "" {
				left += ", "
			}
		}
		if o.Long != "" {
			left += "--" + o.Long
		}
		if o.Arg != "" {
			left += "=<" + o.Arg + ">"
		}
		fmt.Fprintf(&b, "%-34s %s\n", left, o.Help)
	}
	return b.String()
}
