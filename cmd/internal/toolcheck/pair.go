package toolcheck

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Pair runs both sides of a tool that connects through RDMA-CM. In the client's arguments SERVER
// and PORT stand for what the server listens on; LOCAL, on either side, for a local
// address of its own.
func Pair(t *testing.T, cmd tool.Command, open tool.OpenFunc, serverArgs, clientArgs string) (server, client *Side) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, client = &Side{Open: open}, &Side{Open: open}
	listening := make(chan netip.AddrPort, 1)
	done := make(chan struct{})
	start := func(s *Side, args string, listening func(netip.AddrPort)) {
		if strings.Contains(args, "LOCAL") {
			s.Addr = Addr(t).String()
		}
		s.Args = strings.Fields(strings.ReplaceAll(args, "LOCAL", s.Addr))
		env := &tool.Env{Stdout: &s.Stdout, Stderr: &s.Stderr, Open: open, Listening: listening}
		s.Err = cmd.Run(ctx, env, s.Args)
	}
	go func() {
		defer close(done)
		start(server, serverArgs, func(a netip.AddrPort) { listening <- a })
	}()
	select {
	case at := <-listening:
		r := strings.NewReplacer("SERVER", at.Addr().String(), "PORT", portOf(at))
		start(client, r.Replace(clientArgs), nil)
		if client.Err != nil {
			cancel() // the server may wait for ever
		}
	case <-done:
	}
	<-done
	return server, client
}

func portOf(a netip.AddrPort) string {
	_, port, _ := strings.Cut(a.String()[strings.LastIndex(a.String(), ":"):], ":")
	return port
}

// Shared6 returns a way to open one device on ::1 for both sides: there is but
// one IPv6 loopback address.
func Shared6(t *testing.T) tool.OpenFunc {
	dev := Device6(t)
	return func(verbs.Config) (*verbs.Device, func() error, error) { return dev, func() error { return nil }, nil }
}

// Device6 opens a device on ::1, which ends with the test. The UDP port is one that
// is free, because other tests have devices on the address, too.
func Device6(t *testing.T) *verbs.Device {
	a := Addr(t).As4()
	var dev *verbs.Device
	var err error
	for i := range 50 {
		cfg := verbs.Config{Addrs: []netip.Addr{netip.IPv6Loopback()}}
		cfg.UDP.Port = uint16(20000 + (int(a[2])<<8+int(a[3])+i*97)%30000)
		if dev, err = verbs.Open(cfg); err == nil {
			break
		}
	}
	if err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}
