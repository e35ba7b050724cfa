package drill

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const uplinkDrill = `title  t
clause c
qp   rc
uplink max=500
post WRITE len=1024
post WRITE len=8
< WRITE ONLY psn=1 len=8
`

// On the engine long frames are dropped, and others are not.
func TestUplink(t *testing.T) {
	d, err := Parse("x.drill", []byte(uplinkDrill))
	require.NoError(t, err)
	r := Run(t.Context(), d, NewEngine(), Options{})
	require.Equal(t, Pass, r.Verdict, "%v\n%s", r, r.Ladder)
}

// However a drill ends, the peer's machine lets packets pass again; a machine that cannot be told
// is a reason to skip.
func TestUplinkOpens(t *testing.T) {
	cfg := LoopbackUDP()
	target, err := NewUDP(cfg)
	require.NoError(t, err)
	defer target.Close()
	require.False(t, target.Has(NeedUplink))

	var told []int
	fails := false
	target.(*network).cfg.Uplink = func(most int) error {
		told = append(told, most)
		if fails && most > 0 {
			return errors.New("no such device")
		}
		return nil
	}
	require.True(t, target.Has(NeedUplink))
	d, err := Parse("x.drill", []byte(uplinkDrill))
	require.NoError(t, err)
	r := Run(t.Context(), d, target, Options{Within: time.Second})
	require.Equal(t, Fail, r.Verdict, "this uplink drops nothing")
	require.Equal(t, []int{500, 0}, told)

	fails, told = true, nil
	r = Run(t.Context(), d, target, Options{})
	require.Equal(t, Broken, r.Verdict)
	require.Contains(t, r.Text, "no such device")
	require.Equal(t, []int{500, 0}, told, "it may have failed half-way")
}
