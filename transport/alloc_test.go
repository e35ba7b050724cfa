package transport

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// The data path allocates nothing once queues have been as long before:
// requests, responses, completions, events, timers, loss and its repair.
func TestNoAllocs(t *testing.T) {
	for name, edit := range map[string]func(*SendWR){
		"SEND":     func(wr *SendWR) { wr.Opcode = WRSend },
		"SEND 16K": func(wr *SendWR) { wr.Opcode = WRSend; wr.SGList[0].Length = 16 << 10 },
		"SEND imm": func(wr *SendWR) { wr.Opcode = WRSendImm },
		"inline":   func(wr *SendWR) { wr.Opcode = WRSend; wr.Flags |= SendInline },
		"WRITE":    func(wr *SendWR) { wr.Opcode = WRWrite },
		"READ":     func(wr *SendWR) { wr.Opcode = WRRead },
		"READ 64K": func(wr *SendWR) { wr.Opcode = WRRead; wr.SGList[0].Length = 64 << 10 },
		"atomic":   func(wr *SendWR) { wr.Opcode = WRFetchAdd; wr.SGList[0].Length = 8 },
		"flush": func(wr *SendWR) {
			wr.Opcode, wr.SGList, wr.FlushType, wr.FlushLength = WRFlush, nil, ib.FlushGlobalVisibility, 8
		},
		"atomic write": func(wr *SendWR) { wr.Opcode = WRAtomicWrite; wr.SGList = nil },
	} {
		for _, loss := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/loss=%v", name, loss), func(t *testing.T) {
				l := newLoop(t, loopOptions{tuning: Tuning{MaxUnackedPackets: 16}})
				wr := SendWR{
					Flags: SendSignaled, SGList: []SGE{l.a.at(0, 64)},
					RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
				}
				edit(&wr)
				recv := RecvWR{SGList: []SGE{l.b.at(1<<16, 1<<15)}}
				var wc [8]WC
				round := func() {
					consumes := sendOps[wr.Opcode].consumes
					l.now += 1e6
					if err := l.a.qp.PostSend(l.now, &wr); err != nil {
						t.Fatal(err)
					}
					if loss {
						l.a.e.PollTransmit(l.now, l.batch) // all of it is lost
						at, _ := l.a.e.NextTimeout()
						l.now = at
						l.a.e.HandleTimeout(l.now)
					}
					if consumes {
						if err := l.b.qp.PostRecv(&recv); err != nil {
							t.Fatal(err)
						}
					}
					for l.carry(l.a, l.b)+l.carry(l.b, l.a) > 0 {
					}
					if l.a.scq.Poll(wc[:]) != 1 || wc[0].Status != WCSuccess {
						t.Fatal("not complete: ", wc[0])
					}
					if got := l.b.rcq.Poll(wc[:]); consumes != (got == 1) {
						t.Fatal("receive completions: ", got)
					}
				}
				for range 100 {
					round()
				}
				require.Zero(t, testing.AllocsPerRun(200, round))
			})
		}
	}
}

// Bytes that an idle QP takes: connected, never used, with queues of 16 and 16 receive requests
// posted. doc.go says 2.3 KiB; the allocator's size classes get an eighth of that.
const idleQPBytes = 2355 + 294

func TestIdleQPMemory(t *testing.T) {
	l := newLoop(t, loopOptions{})
	const n = 1000
	qps := make([]*QP, 0, n)
	connect := func(qp *QP) {
		was := l.a.qp
		l.a.qp = qp
		l.connect(l.a, l.b, loopOptions{typ: ib.RC, mtu: ib.MTU1024, psn: 7})
		l.a.qp = was
	}
	recv := RecvWR{SGList: []SGE{l.a.at(0, 64)}}
	make1 := func() {
		qp, err := l.a.e.CreateQP(QPInitAttr{
			Type: ib.RC, PD: l.a.pd, SendCQ: l.a.scq, RecvCQ: l.a.rcq,
			Caps: QPCaps{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		require.NoError(t, err)
		connect(qp)
		for range 16 {
			require.NoError(t, qp.PostRecv(&recv))
		}
		qps = append(qps, qp)
	}
	make1()
	before := heapInUse()
	for len(qps) < n {
		make1()
	}
	per := int(heapInUse()-before) / (n - 1)
	t.Logf("%d bytes per idle QP, of which QP itself %d, send request %d, receive request %d",
		per, unsafe.Sizeof(QP{}), unsafe.Sizeof(sendWQE{}), unsafe.Sizeof(recvWQE{}))
	require.Less(t, per, idleQPBytes)
	runtime.KeepAlive(qps)
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
