package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A client whose device is used up, or dies under it, ends with an error at whatever step
// that happens.
func TestExhausted(t *testing.T) {
	server, at := startServer(t, t.Context(), nil, "rping", "-s -P -p 0 -a "+toolcheck.Addr(t).String())
	for _, c := range []string{"rping -c -a %s -p %d -I %s", "rdma_client -s %s -p %d --addr %s"} {
		for _, limit := range []mem.Limits{{PDs: 1}, {Regions: 1}} { // the communication manager has these
			open := func(cfg verbs.Config) (*verbs.Device, func() error, error) {
				cfg.MemLimits = limit
				return tool.OpenDevice(cfg)
			}
			var name string
			args := fmt.Sprintf(c, at.Addr(), at.Port(), toolcheck.Addr(t))
			_, err := fmt.Sscan(args, &name)
			require.NoError(t, err)
			client := start(t, t.Context(), open, name, args[len(name):])
			<-client.done
			require.Error(t, client.err, "%s with %+v", args, limit)
		}
	}
	select {
	case <-server.done:
		t.Fatal(server.err)
	default:
	}
}

// A device that closes while a tool begins is an error, too.
func TestDeviceClosedAtOnce(t *testing.T) {
	open := func(cfg verbs.Config) (*verbs.Device, func() error, error) {
		dev, release, err := tool.OpenDevice(cfg)
		return dev, release, errors.Join(err, dev.Close())
	}
	for _, args := range []string{"-s", "-c -a 127.0.0.1"} {
		c := start(t, context.Background(), open, "rping", args+" --addr "+toolcheck.Addr(t).String())
		<-c.done
		require.ErrorIs(t, c.err, roce.ErrClosed)
	}
}
