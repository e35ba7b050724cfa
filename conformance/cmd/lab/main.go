// Command lab boots guests with a kernel's rdma_rxe and runs commands in them. Each
// argument "suite: command" boots a guest of that Debian suite and runs the command in
// its shell; "host: command" runs on this machine inside the lab's namespace. Commands
// run one after the other, in the order given, with every guest up and the guests'
// addresses in $GUEST0, $GUEST1, ... and this machine's in $HOST.
//
//	go run ./conformance/cmd/lab 'bookworm: ibv_devinfo' 'trixie: rdma link'
//	go run ./conformance/cmd/lab -prepare
//	go run ./conformance/cmd/lab -put bin/roce 'trixie: /tmp/roce devinfo --link xdp'
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
)

func main() {
	prepareOnly := flag.Bool("prepare", false, "only build the images")
	timeout := flag.Duration("timeout", 10*time.Minute, "limit for everything")
	capture := flag.String("capture", "", "write what goes over the wire to this pcap file")
	put := flag.String("put", "", "put this file into /tmp of each guest, to be run there")
	netArgs := flag.String("net", "", "options of QEMU's virtio-net-pci for the guests' eth0, such as disable-legacy=on,iommu_platform=on")
	flag.Parse()
	logf := func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }
	type step struct{ where, cmd string }
	var steps []step
	var suites []string
	for _, a := range flag.Args() {
		where, cmd, ok := strings.Cut(a, ":")
		if !ok {
			fmt.Fprintf(os.Stderr, "lab: %q is not of the form \"suite: command\"\n", a)
			os.Exit(2)
		}
		steps = append(steps, step{strings.TrimSpace(where), strings.TrimSpace(cmd)})
		if s, _, _ := strings.Cut(strings.TrimSpace(where), "/"); s != "host" {
			suites = append(suites, s)
		}
	}
	if len(suites) == 0 {
		suites = lab.Suites
	}
	slices.Sort(suites)
	suites = slices.Compact(suites)
	lab.Enter(func(ctx context.Context) error {
		images, errs := lab.Prepare(ctx, suites, logf)
		for _, im := range images {
			logf("lab: %s: kernel %s (%s)", im.Suite, im.Kernel, im.Version)
		}
		for _, err := range errs {
			return err
		}
		if *prepareOnly {
			os.Exit(0)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	if err := run(ctx, logf, extras{*capture, *put, *netArgs}, func(yield func(string, string) bool) {
		for _, s := range steps {
			if !yield(s.where, s.cmd) {
				return
			}
		}
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// extras are what was asked for besides the steps; empty is nothing.
type extras struct{ capture, put, netArgs string }

// putInto puts a file into a guest's /tmp.
func putInto(ctx context.Context, g *lab.Guest, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return g.Put(ctx, "/tmp/"+filepath.Base(file), 0o755, f)
}

func run(ctx context.Context, logf func(string, ...any), x extras, steps func(func(string, string) bool)) error {
	l, err := lab.New(lab.Config{Logf: logf})
	if err != nil {
		return err
	}
	defer l.Close()
	if x.capture != "" {
		c, err := l.Wire.Capture(x.capture, nil)
		if err != nil {
			return err
		}
		defer c.Close()
	}
	guests := map[string]*lab.Guest{}
	env := map[string]string{"HOST": lab.Host4}
	for where := range steps {
		if where == "host" || guests[where] != nil {
			continue
		}
		suite, _, _ := strings.Cut(where, "/")
		im, err := lab.OpenImage(suite)
		if err != nil {
			return err
		}
		g, err := l.Boot(ctx, lab.GuestConfig{Name: strings.ReplaceAll(where, "/", "-"), Image: im, NetArgs: x.netArgs})
		if err != nil {
			return err
		}
		if x.put != "" {
			if err := putInto(ctx, g, x.put); err != nil {
				return err
			}
		}
		env[fmt.Sprintf("GUEST%d", len(guests))] = g.Addr4.String()
		guests[where] = g
	}
	for where, cmd := range steps {
		fmt.Printf("== %s: %s\n", where, cmd)
		if where == "host" {
			c := l.Command(ctx, "sh", "-c", cmd)
			for k, v := range env {
				c.Env = append(c.Environ(), k+"="+v)
			}
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Run(); err != nil {
				if _, ok := err.(*exec.ExitError); !ok {
					return err
				}
				return fmt.Errorf("host: %s: %w", cmd, err)
			}
			continue
		}
		p, err := guests[where].Start(ctx, lab.Cmd{Argv: []string{"sh", "-c", cmd}, Env: env})
		if err != nil {
			return err
		}
		err = p.Wait()
		fmt.Print(p.Output())
		if err != nil {
			return err
		}
	}
	return nil
}
