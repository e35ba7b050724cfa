package programs

import (
	"errors"
	"io/fs"
	"slices"
)

// smoke are the cases of the shortest run, which has to pass on any machine, however busy: programs
// that connect reliably, with little data. Nothing of UC and UD is here, where a datagram that is
// lost is waited for, and nothing that runs for a time.
var smoke = []string{
	"ibv_devices", "ibv_devinfo", "ibv_rc_pingpong -c", "ibv_srq_pingpong -c",
	"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_send_bw --use-srq -q 4", "ib_atomic_bw -A FETCH_AND_ADD",
	"ib_write_lat", "ib_read_lat", "ib_send_lat", "rping -S 4096 -C 20 -v -V", "ucmatose -c 5 -S 6000",
	"rdma_client", "rstream -S 100 -C 500 -T v", "riostream -S 3000 -C 50 -I 4 -T v",
}

// Smoke returns the cases of the shortest run.
func Smoke() []Case {
	return slices.DeleteFunc(Cases(nil, false),
		func(c Case) bool { return c.Group == groupMixed || !slices.Contains(smoke, c.name()) })
}

// NotAllowed says that a machine does not allow what cases need: network namespaces with a link
// between them, and mounts.
type NotAllowed struct{ Err error }

func (e *NotAllowed) Error() string {
	return "programs: this machine does not allow it: " + e.Err.Error()
}

func (e *NotAllowed) Unwrap() error { return e.Err }

// Allowed returns a *NotAllowed if staging, whose error is given, or making a network fails for
// want of rights or of a kernel's part; another error is returned as it is.
func Allowed(staging error) error {
	if errors.Is(staging, fs.ErrPermission) {
		return &NotAllowed{staging}
	}
	if staging != nil {
		return staging
	}
	n, err := NewNet()
	if err != nil {
		return &NotAllowed{err}
	}
	return n.Close()
}
