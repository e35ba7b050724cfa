package programs

import "slices"

// smoke are the cases of the shortest run, which has to pass on any machine, however busy: programs that connect reliably, with
// little data. Nothing of UC and UD is here, where a datagram that is lost is waited for, and nothing that runs for a time.
var smoke = []string{
	"ibv_devices", "ibv_devinfo", "ibv_rc_pingpong -c", "ibv_srq_pingpong -c",
	"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_send_bw --use-srq -q 4", "ib_atomic_bw -A FETCH_AND_ADD", "ib_write_lat", "ib_read_lat", "ib_send_lat",
	"rping -S 4096 -C 20 -v -V", "ucmatose -c 5 -S 6000", "rdma_client", "rstream -S 100 -C 500 -T v", "riostream -S 3000 -C 50 -I 4 -T v",
	"fi_info -p verbs", "ucx_info -d",
}

// Smoke returns the cases of the shortest run.
func Smoke() []Case {
	return slices.DeleteFunc(Cases(nil, false), func(c Case) bool { return c.Group == groupMixed || !slices.Contains(smoke, c.name()) })
}
