package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A kernel's log in the form that dmesg prints it in.
const someLog = `[    0.000000] Linux version 6.1.0
[    0.100000] x86/fpu: Supporting XSAVE feature 0x001
[   12.100000] ------------[ cut here ]------------
[   12.100001] WARNING: CPU: 0 PID: 13 at drivers/net/x.c:7 x_open+0x9d4/0xd90 [x]
[   12.100002] Modules linked in: x
[   12.100003] Call Trace:
[   12.100004]  <TASK>
[   12.100005] ---[ end trace 0000000000000000 ]---
[   13.000000] rdma_rxe: loaded
[   14.000000] Call Trace:
[   15.000000] WARNING: CPU: 0 PID: 1 at mm/y.c:8 y+0x1/0x2
[   15.000001] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   15.000002] Call Trace:
`

// Each complaint of a log is found by itself, with the trace that belongs to it, and a warning has
// a place.
func TestTroubles(t *testing.T) {
	got := troubles(someLog)
	require.Equal(t, []Trouble{
		{"[   12.100001] WARNING: CPU: 0 PID: 13 at drivers/net/x.c:7 x_open+0x9d4/0xd90 [x]",
			"[   12.100003] Call Trace:"},
		{"[   14.000000] Call Trace:"},
		{"[   15.000000] WARNING: CPU: 0 PID: 1 at mm/y.c:8 y+0x1/0x2"},
		{"[   15.000001] BUG: kernel NULL pointer dereference, address: 0000000000000008",
			"[   15.000002] Call Trace:"},
	}, got)
	var places []string
	for _, x := range got {
		places = append(places, x.Warning())
	}
	require.Equal(t, []string{"drivers/net/x.c:7 x_open", "", "mm/y.c:8 y", ""}, places)
	require.Equal(t, "a\nb", Trouble{"a", "b"}.String())
	require.Empty(t, troubles("[    1.000000] all is well\n"))
	for _, line := range []string{"", "WARNING: somebody is slow", "WARNING: at",
		"WARNING: CPU: 0 at mm/y.c:8", "BUG: CPU: 0 at mm/y.c:8 y+0x1/0x2"} {
		require.Empty(t, Trouble{line}.Warning(), line)
	}
	require.Empty(t, Trouble(nil).Warning())
	for _, mark := range []string{"Oops: 0000 [#1]", "general protection fault",
		"rcu: INFO: rcu_sched self-detected stall", "watchdog: BUG: soft lockup - CPU#0"} {
		require.Len(t, troubles("x\n"+mark+"\ny\n"), 1, mark)
	}
}
