package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
)

// step is a command, and where it runs.
type step struct{ where, cmd string }

// boot boots guests with a kernel's rdma_rxe and runs commands in them. Each argument "suite:
// command" boots a guest of that Debian suite and runs the command in its shell; "suite/name:
// command" boots another one of the suite; "host: command" runs on this machine inside the lab's
// namespace. Commands run one after the other, in the order given, with every guest up and the
// guests' addresses in $GUEST0, $GUEST1, ... and this machine's in $HOST.
//
//	go run ./conformance/cmd/lab boot 'bookworm: ibv_devinfo' 'trixie: rdma link'
//	go run ./conformance/cmd/lab boot -prepare
//	go run ./conformance/cmd/lab boot -put bin/roce 'trixie: /tmp/roce devinfo --link xdp'
func boot(t *tool, args []string) error {
	var x extras
	prepareOnly := t.Bool("prepare", false, "only build the images")
	timeout := t.Duration("timeout", 10*time.Minute, "limit for everything")
	t.StringVar(&x.capture, "capture", "", "write what goes over the wire to this pcap file")
	t.StringVar(&x.put, "put", "", "put this file into /tmp of each guest, to be run there")
	t.StringVar(&x.netArgs, "net", "",
		"options of QEMU's virtio-net-pci for the guests' eth0, such as disable-legacy=on,iommu_platform=on")
	_ = t.Parse(args) // it exits
	var steps []step
	var suites []string
	for _, a := range t.Args() {
		where, cmd, ok := strings.Cut(a, ":")
		if !ok {
			return usageError{fmt.Errorf("%q is not of the form \"suite: command\"", a)}
		}
		steps = append(steps, step{strings.TrimSpace(where), strings.TrimSpace(cmd)})
		if s, _, _ := strings.Cut(strings.TrimSpace(where), "/"); s != "host" {
			suites = append(suites, s)
		}
	}
	if len(suites) == 0 {
		suites = slices.Clone(lab.Suites)
	}
	slices.Sort(suites)
	suites = slices.Compact(suites)
	lab.Enter(func(ctx context.Context) error {
		err := prepareGuests(ctx, suites, t.logf)
		if err == nil && *prepareOnly {
			os.Exit(0)
		}
		return err
	})
	ctx, stop := t.context(*timeout)
	defer stop()
	return runSteps(ctx, t.logf, x, steps)
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

func runSteps(ctx context.Context, logf func(string, ...any), x extras, steps []step) error {
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
	for _, s := range steps {
		where := s.where
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
	for _, s := range steps {
		where, cmd := s.where, s.cmd
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
