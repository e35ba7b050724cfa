package matrix

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

func TestFindings(t *testing.T) {
	f := newFindings()
	f.numbers["cnps"] = 3
	for _, d := range []time.Duration{4 * time.Millisecond, 1500 * time.Nanosecond, 2 * time.Microsecond} {
		f.time("nak", d)
	}
	f.sample("acks", "", 7)
	numbers, samples := f.results()
	require.Equal(t, "acks 7, cnps 3, nak_max_us 4000, nak_p50_us 2", measured(numbers).String())
	require.Equal(t, map[string][]float64{"nak_us": {4000, 1.5, 2}, "acks": {7}}, samples)
	numbers, samples = newFindings().results()
	require.Nil(t, numbers, "a row that has found nothing has no numbers")
	require.Nil(t, samples)

	var b bytes.Buffer
	r := new(Report)
	r.Add(Row{Kernel: "x", Link: "udp", Group: "micro", Op: "CNP", Role: "requester", Result: Pass,
		Measured: map[string]float64{"cnps": 3, "nak_max_us": 4000, "nak_p50_us": 2}})
	r.WriteTable(&b)
	require.Contains(t, b.String(), "MEASURED\n  x udp, CNP as requester: cnps 3, nak_max_us 4000, nak_p50_us 2\n")
	require.Contains(t, b.String(), "\n1 passed, 0 failed, 0 skipped\n")
}

// After so many losses in a row nothing is tried any more; a success in between begins anew.
func TestTolerance(t *testing.T) {
	var none *Tolerance
	require.NoError(t, none.Given())
	tol, gone := new(Tolerance), errors.New("gone")
	for range lostInARow - 1 {
		tol.Lost(gone)
	}
	require.NoError(t, tol.Given())
	tol.Found()
	for range lostInARow - 1 {
		tol.Lost(gone)
	}
	require.NoError(t, tol.Given())
	tol.Lost(gone)
	require.ErrorIs(t, tol.Given(), gone)
	tol.Found() // of a row that began before: too late
	require.ErrorIs(t, tol.Given(), gone)
}

// A lost peer fails the rows with the reason and does not end the run; rows that were not asked for
// are not run.
func TestTolerantLanes(t *testing.T) {
	e, a, b := laneEnv()
	e.Tolerant = new(Tolerance)
	b.max = 1
	e.Choose = func(row Row) bool { return row.Op != "unwanted" }
	pass := func(row Row) job {
		return oneRow(row, func(*pair, *Row) error { return nil })
	}
	require.NoError(t, e.inLanes(t.Context(), requester, 1, []job{pass(Row{Op: "1"}), pass(Row{Op: "unwanted"})}))
	require.NoError(t, e.inLanes(t.Context(), requester, 1, []job{pass(Row{Op: "2"}), pass(Row{Op: "3"})}))
	var got []string
	for _, row := range e.Report.Rows() {
		got = append(got, row.Op+" "+string(row.Result)+" "+row.Detail)
	}
	require.Equal(t, []string{"1 pass ", "2 fail blank: no more sessions", "3 fail blank: no more sessions"}, got)
	require.Zero(t, a.open+b.open, "sessions left open")
}

// A counter that the kernel shows late is waited for; one that the device lacks is not.
func TestCountersLate(t *testing.T) {
	reads := 0
	late := func() (map[string]uint64, error) {
		reads++
		return map[string]uint64{"packet_seq_err": 7 + uint64(reads/3)}, nil
	}
	before := map[string]uint64{"packet_seq_err": 7}
	name, n, err := counted(late, before, []string{"rcvd_seq_err", "packet_seq_err"}, 1)
	require.NoError(t, err)
	require.Equal(t, "packet_seq_err", name)
	require.Equal(t, 1, n)
	require.Equal(t, 3, reads)

	name, _, err = counted(late, before, []string{"rcvd_seq_err"}, 1)
	require.NoError(t, err)
	require.Empty(t, name)
}

// What the wire has seen of faults is counted as the one counts who is to see them.
func TestSeenFaults(t *testing.T) {
	us, guest := addrs[0], addrs[1]
	x := microTrial(t, us, guest)
	request := func(psn uint32, fate string) ether.Event {
		return ether.Event{Fate: fate, Pkt: &ether.Packet{
			Src: us, Dst: guest, QPN: guestQPN, Opcode: ether.OpWriteMiddle, PSN: (firstPSN + psn) & psnMask,
		}}
	}
	ce := request(9, "mark-ce")
	ce.Pkt.ECN = ecnCE
	events := []ether.Event{
		request(0, ""), request(1, "drop"), request(2, ""), request(3, ""), // two are ahead
		request(1, ""), request(2, ""), request(3, ""), // repaired
		request(4, "duplicate"), request(3, ""), // a copy, and an old one
		request(5, "corrupt"), request(5, ""),
		request(6, "reorder"), request(7, ""), request(6, "release"), request(7, ""), // one is ahead
		request(8, ""), ce,
	}
	var s seenFaults
	s.add(x, events)
	require.Equal(t, seenFaults{ahead: 3, duplicates: 2, damaged: 1, marked: 1}, s)
}

// The time of an answer is that from the first transmission to the ACK that covers the last packet.
func TestAnswered(t *testing.T) {
	x := microTrial(t, addrs[0], addrs[1])
	event := func(at time.Duration, psn uint32, ack bool) ether.Event {
		p := &ether.Packet{Src: addrs[0], Dst: addrs[1], QPN: guestQPN, Opcode: ether.OpWriteMiddle, PSN: psn,
			Frame: make([]byte, 32)}
		if ack {
			p = &ether.Packet{Src: addrs[1], Dst: addrs[0], QPN: 1, Opcode: ether.OpAcknowledge, PSN: psn,
				Frame: make([]byte, 32)}
		}
		return ether.Event{At: at, Pkt: p}
	}
	d, ok := x.answered([]ether.Event{event(1, 5, true), event(10, 6, false), event(12, 7, false),
		event(20, 6, false), event(25, 6, true), event(30, 7, true)}, 6, 7)
	require.True(t, ok)
	require.Equal(t, time.Duration(20), d)
	_, ok = x.answered([]ether.Event{event(10, 6, false), event(25, 6, true)}, 6, 7)
	require.False(t, ok, "the ACK is of the packet before")
}

const guestQPN = 17

// placed is a peer with an address.
type placed struct {
	peer.Peer
	addr netip.Addr
}

func (p placed) Addr(peer.Family) netip.Addr { return p.addr }

type numbered struct {
	peer.QP
	qpn uint32
}

func (q numbered) QPN() uint32 { return q.qpn }

// microTrial is a trial between two addresses, without packets.
func microTrial(t *testing.T, us, guest netip.Addr) *trial {
	t.Helper()
	return &trial{conn: &conn{pair: &pair{
		req: &side{p: placed{addr: us}}, rsp: &side{p: placed{addr: guest}},
	}, params: params{family: peer.V4, mtu: faultMTU},
		rq: numbered{qpn: 1}, sq: numbered{qpn: guestQPN}}}
}
