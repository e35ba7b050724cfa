package matrix

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/peer"
)

// What a survivor says tells that it noticed; its end alone does not.
func TestKillAndWait(t *testing.T) {
	const running = "ping data: rdma-ping-3: "
	for name, c := range map[string]struct {
		out  string
		want string
	}{
		"notices":         {running + "\nDISCONNECT EVENT", ""},
		"says nothing":    {running, "ends for another reason"},
		"panics":          {running + "\npanic: runtime error", "ends for another reason"},
		"notices, panics": {running + "\nDISCONNECT EVENT\npanic: runtime error", "crashes"},
		"never runs":      {"", "before the kill"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				victim, err := script{}.Start(ctx, nil)
				require.NoError(t, err)
				survivor, err := script{after: 5 * time.Second, out: c.out, err: errors.New("exit status 1")}.Start(ctx,
					nil)
				require.NoError(t, err)
				err = peer.Steps(func() { killAndWait(ctx, victim, survivor, survivor, running, "DISCONNECT EVENT") })
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
				select {
				case <-victim.Done():
				default:
					victim.Kill()
				}
			})
		})
	}
}

func TestNobodyListens(t *testing.T) {
	for text, want := range map[string]bool{
		"cma event RDMA_CM_EVENT_REJECTED, error 8\nwait for CONNECTED state 1":             true,
		"roce rping: event: RDMA_CM_EVENT_REJECTED, error: 8 (nobody listens on that port)": true,
		"cma event RDMA_CM_EVENT_REJECTED, error 28 from fd77::8":                           false,
		"cma event RDMA_CM_EVENT_UNREACHABLE, error 8":                                      false,
	} {
		require.Equal(t, want, nobodyListens.MatchString(text), text)
	}
}
