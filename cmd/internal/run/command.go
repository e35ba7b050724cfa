package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
)

// options is the command line.
type options struct {
	device tool.DeviceOptions
	stat   bool
	help   bool
}

func (o *options) table() []getopt.Option {
	var table []getopt.Option
	for _, opt := range o.device.Options() {
		switch opt.Long { // the libraries know these
		case "ib-dev", "link":
		case "addr":
			opt.Help = "local address; with commas between them, a device at each"
		case "polling":
			opt.Help = "no thread of the device's own: the program polls. Least latency"
		default:
			continue
		}
		table = append(table, opt)
	}
	return append(table, getopt.Option{Long: "stat", Help: "\"roce stat\" sees the program", Set: getopt.Bool(&o.stat)},
		getopt.Option{Short: 'h', Long: "help", Help: "this text", Set: getopt.Bool(&o.help)})
}

const usage = `run: an RDMA program on libibverbs and librdmacm in user space

Usage:
  roce run [options] [--] PROGRAM [ARGUMENT]...

PROGRAM is any program on libibverbs or librdmacm: ib_write_bw, rping, a Python script. It gets the libraries that
"make verbs" builds in place of the system's, and runs as it is; no kernel module, no device file, no privileges. It may also be a
shell: what is started from there gets them too. Several programs can be at one address.

Options:
`

const environment = `
The libraries read the environment, which "roce run" sets:
  GOROCE_ADDR, GOROCE_LINK, GOROCE_POLLING   as --addr, --link and --polling; what is set already holds without the option
  GOROCE_STAT                                1, by --stat
It reads:
  GOROCE_VERBS_LIB                           the folder of the libraries; default: verbs beside this program, then
                                             ../lib/goroce, /usr/local/lib/goroce, /usr/lib/goroce
`

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{
		Name: "run", Summary: "runs any RDMA program on libibverbs and librdmacm in user space",
		Run: func(ctx context.Context, env *tool.Env, args []string) error { return run(ctx, env, theSystem(), args) },
	}
}

// system is what the command needs of the machine, so that tests can stand in for it.
type system struct {
	environ   []string
	self      string // path of this program
	lookPath  func(name string) (string, error)
	who       identity
	available func(env *tool.Env, d *tool.DeviceOptions, p tool.Place) error
	exec      func(path string, argv, environ []string) error
}

func theSystem() *system {
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	return &system{
		environ: os.Environ(), self: self, lookPath: lookPath,
		who:       identity{uid: os.Geteuid(), gid: os.Getegid(), realUID: os.Getuid(), realGID: os.Getgid()},
		available: available, exec: become,
	}
}

func run(ctx context.Context, env *tool.Env, sys *system, args []string) error {
	var o options
	table := o.table()
	argv, err := getopt.ParseLeading(table, args)
	switch {
	case err != nil:
		return err
	case o.help:
		return &tool.Text{Text: usage + getopt.Usage(table) + environment}
	case len(argv) == 0:
		return getopt.Misuse("a program is expected")
	}
	vars := parseEnviron(sys.environ)
	o.takeDefaults(vars)
	libs, err := findLibraries(vars.get(libVar), sys.self)
	if err != nil {
		return err
	}
	path, err := sys.lookPath(argv[0])
	if err != nil {
		return notFound(argv[0], err)
	}
	if err := checkProgram(path, libs, sys.who); err != nil {
		return err
	}
	addrs, err := o.place(env, sys)
	if err != nil {
		return err
	}
	libs.set(vars)
	vars.set(addrVar, joined(addrs))
	vars.set(sysfsVar, sysfsOf(addrs, ifaceOf))
	removeLeft()
	if o.device.Link != "" {
		vars.set(linkVar, o.device.Link)
	}
	if o.device.Polling {
		vars.set(pollingVar, "1")
	}
	if o.stat {
		vars.set(statVar, "1")
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// The program's name stays as it was typed.
	return fmt.Errorf("%s: %w", path, sys.exec(path, argv, vars.list))
}

// notFound is the error for a program that is not there, without the word exec, which says nothing
// to a user.
func notFound(name string, err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// takeDefaults takes what the environment says and the command line does not: "roce run" inside of
// "roce run".
func (o *options) takeDefaults(vars *environ) {
	if o.device.Addr == "" && o.device.Dev == "" {
		o.device.Addr = vars.get(addrVar)
	}
	if o.device.Link == "" {
		o.device.Link = vars.get(linkVar)
	}
}

// place decides where the devices are.
func (o *options) place(env *tool.Env, sys *system) ([]netip.Addr, error) {
	p, err := o.device.Choose("", false)
	if err != nil && o.device.Addr == "" && o.device.Dev == "" {
		p, err = o.device.Choose("", true) // a machine without IPv4
	}
	if err != nil {
		return nil, err
	}
	if err := sys.available(env, &o.device, p); err != nil {
		return nil, err
	}
	return p.Addrs, nil
}

// joined are addresses as the libraries want them.
func joined(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}
