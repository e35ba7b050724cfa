package grammar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// RunConfig says how to run.
type RunConfig struct {
	Packets uint64
	For     time.Duration // ends the run sooner; 0 does not
	Care    bool          // no near-misses: what a peer may say, and the network's losses
	CM      bool          // speaks RDMA-CM, too, if the target listens
}

// RunResult is what came of it.
type RunResult struct {
	Said, Heard, Lives uint64
	CM                 map[string]int // messages of RDMA-CM that the target sent
	Took               time.Duration
}

const (
	runQPs     = 4
	runMemory  = 1 << 16
	runRecvs   = 64
	aliveEvery = 2000 // packets
	runSilence = 2 * time.Millisecond
)

// Run has a target listen to a speaker: over a network, or in virtual time. Queue pairs that end
// are made again. Every so many packets, and at the end, a new connection has to do a WRITE: a
// target that does not has crashed, or hangs.
func Run(ctx context.Context, d *Dice, t drill.Target, cfg RunConfig) (res RunResult, err error) {
	b, err := t.Open(ctx)
	if err != nil {
		return res, err
	}
	defer b.Close()
	s, err := b.Session()
	if err != nil {
		return res, err
	}
	defer s.Close()
	r := &targetRun{d: d, b: b, session: s, speaker: newSpeaker(d), cfg: cfg, res: &res}
	began := time.Now()
	defer func() { res.Took = time.Since(began) }()
	if err = r.open(t); err != nil {
		return res, err
	}
	for res.Said < cfg.Packets && ctx.Err() == nil && (cfg.For == 0 || time.Since(began) < cfg.For) {
		if err = r.step(); err != nil {
			return res, fmt.Errorf("grammar: packet %d: %w", res.Said, err)
		}
	}
	if r.speaker.CM != nil {
		res.CM = map[string]int{}
		for a, n := range r.speaker.CM.Heard {
			res.CM[a.String()] = n
		}
	}
	return res, errors.Join(context.Cause(ctx), r.alive())
}

// targetRun is a run on its way.
type targetRun struct {
	d       *Dice
	b       drill.Bench
	session peer.Session
	speaker *Speaker
	cfg     RunConfig
	res     *RunResult
	mr      peer.MR
	ends    []*targetEnd
	own     uint32 // numbers of the speaker's queue pairs
	checked uint64
}

// targetEnd is a queue pair of the target.
type targetEnd struct {
	qp   peer.QP
	conn *Conn
	life uint64 // packets that it is for
}

func (r *targetRun) open(t drill.Target) error {
	var err error
	if r.mr, err = r.session.MR(runMemory, peer.AccessAll); err != nil {
		return err
	}
	r.speaker.Memory = []Memory{{Addr: r.mr.Addr(), Len: runMemory, Key: ib.RKey(r.mr.RKey()), Read: true,
		Write: true, Atomic: true}}
	for i := range runQPs {
		e := &targetEnd{conn: &Conn{Type: [...]ib.Transport{ib.RC, ib.RC, ib.UC, ib.UD}[i], QKey: 0x11111111}}
		r.ends = append(r.ends, e)
		if err = r.connect(e); err != nil {
			return err
		}
	}
	if !r.cfg.CM || !t.Has(drill.NeedCM) {
		return nil
	}
	port, err := r.b.Listen(peer.RC)
	if err != nil {
		return err
	}
	r.speaker.CM = &CM{Here: r.b.Local(peer.V4), There: r.b.Peer(peer.V4), Port: uint16(port)}
	return nil
}

// firstOwn is where the numbers of the speaker's queue pairs begin.
const firstOwn = 0x400000

// make makes a queue pair of the target that is connected with the speaker's number own.
func (r *targetRun) make(t ib.Transport, own, next, first uint32) (peer.QP, error) {
	typ := map[ib.Transport]peer.Type{ib.RC: peer.RC, ib.UC: peer.UC, ib.UD: peer.UD}[t]
	qp, err := r.session.QP(peer.QPConfig{
		Type: typ, Access: peer.AccessAll, MaxSendWR: 16, MaxRecvWR: runRecvs, MaxSGE: 1, QKey: 0x11111111,
	})
	if err != nil {
		return nil, err
	}
	return qp, qp.Connect(peer.Conn{
		Family: peer.V4, Remote: r.b.Local(peer.V4), RemoteQPN: own, MTU: 1024, SQPSN: first, RQPSN: next,
		RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, MaxRdAtomic: 4, MaxDestRdAtomic: 4,
	})
}

// connect makes a queue pair of the target, in place of the one before.
func (r *targetRun) connect(e *targetEnd) error {
	if e.qp != nil {
		if err := e.qp.Close(); err != nil {
			return err
		}
	}
	r.own++
	next, first := r.d.U32()&ib.PSNMask, r.d.U32()&ib.PSNMask
	own := firstOwn + r.own%0x100000
	var err error
	if e.qp, err = r.make(e.conn.Type, own, next, first); err != nil {
		return err
	}
	c := e.conn
	c.Target, c.Own, c.MTU, c.Depth, c.MostSend = ib.QPN(e.qp.QPN()), ib.QPN(own), 1024, 4, 4096
	r.speaker.Connect(c, ib.PSN(next), ib.PSN(first))
	if r.cfg.Care {
		c.Manners = 0
	}
	e.life = r.res.Said + 500 + uint64(r.d.N(3000))
	r.res.Lives++
	return r.receives(e)
}

// receives posts what SENDs need, as long as there is room.
func (r *targetRun) receives(e *targetEnd) error {
	for range runRecvs / 2 {
		if e.qp.PostRecv(peer.RecvWR{SGL: []peer.SGE{{MR: r.mr, Len: 8192}}}) != nil {
			return nil
		}
	}
	return nil
}

// burst is how much is said before the target is heard.
const burst = 16

func (r *targetRun) step() error {
	for range burst {
		p, ok := r.speaker.Say()
		if !ok {
			continue
		}
		if err := r.send(p); err != nil {
			return err
		}
	}
	if err := r.hear(); err != nil {
		return err
	}
	for _, e := range r.ends {
		if err := r.look(e); err != nil {
			return err
		}
	}
	if r.res.Said >= r.checked+aliveEvery {
		r.checked = r.res.Said
		return r.alive()
	}
	return nil
}

// look has the program of the target do something with a queue pair, and makes it again if it has
// ended.
func (r *targetRun) look(e *targetEnd) error {
	if e.conn.Dead || r.res.Said > e.life {
		return r.connect(e)
	}
	switch r.d.N(12) {
	case 0, 1:
		wcs, err := e.qp.PollRecv(runRecvs, 0)
		if err != nil {
			return err
		}
		for _, wc := range wcs {
			if wc.Status == peer.WRFlushErr {
				return r.connect(e)
			}
			if err := e.qp.PostRecv(peer.RecvWR{SGL: []peer.SGE{{MR: r.mr, Len: 8192}}}); err != nil {
				break
			}
		}
		_, err = e.qp.PollSend(16, 0)
		return err
	case 2:
		if e.conn.Type == ib.RC {
			op := [...]peer.Opcode{peer.OpWrite, peer.OpSend, peer.OpRead, peer.OpFetchAdd}[r.d.N(4)]
			n := 1 + r.d.N(4000)
			if op == peer.OpFetchAdd {
				n = 8
			}
			_ = e.qp.PostSend(peer.SendWR{Op: op, Flags: peer.FlagSignaled,
				SGL: []peer.SGE{{MR: r.mr, Len: n}}, RemoteAddr: 1 << 20, RKey: 7, CompareAdd: 1})
		}
	}
	return nil
}

// send seals a packet and puts it on the wire.
func (r *targetRun) send(p Packet) error {
	d := drill.Datagram{Sent: true, Src: r.b.Local(peer.V4), Dst: r.b.Peer(peer.V4), SrcPort: ib.UDPPort,
		TOS: p.TrafficClass &^ 3, BadICRC: p.BadICRC}
	if p.Stranger && r.b.Stranger(peer.V4).IsValid() {
		d.Src = r.b.Stranger(peer.V4)
	}
	d.Payload = append([]byte(nil), p.Data...)
	if n := len(d.Payload) - ib.ICRCBytes; n >= ib.BTHBytes {
		c := ib.NewICRC(ib.Flow{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, DstPort: ib.UDPPort})
		crc := c.Checksum(0, d.Payload[:n])
		if p.BadICRC {
			crc ^= 1 << 16
		}
		ib.PutICRC(d.Payload[n:], crc)
	}
	r.res.Said++
	return r.b.Send(d)
}

// hear takes what the target has sent.
func (r *targetRun) hear() error {
	for {
		d, ok, err := r.b.Recv(runSilence)
		if err != nil || !ok {
			return err
		}
		r.res.Heard++
		if d.BadICRC {
			return fmt.Errorf("the target sent a packet with a wrong ICRC: % x", d.Payload[:min(len(d.Payload), 48)])
		}
		if _, ok := r.speaker.Hear(d.Payload); !ok {
			return fmt.Errorf("the target sent what is no packet: % x", d.Payload[:min(len(d.Payload), 48)])
		}
	}
}

// aliveWithin is how long a target may take to answer.
const aliveWithin = time.Minute

// alive makes a connection and writes.
func (r *targetRun) alive() error {
	r.own++
	own := firstOwn + r.own%0x100000
	qp, err := r.make(ib.RC, own, 100, 100)
	if err != nil {
		return fmt.Errorf("the target makes no queue pair any more: %w", err)
	}
	defer qp.Close()
	s := newSpeaker(FromBytes(nil))
	c := &Conn{Type: ib.RC, Target: ib.QPN(qp.QPN()), Own: ib.QPN(own), MTU: 1024}
	p := s.begin(c, ib.RCWriteOnly, 100, 8)
	p.AckReq, p.RETH = true, ib.RETH{VA: r.mr.Addr(), RKey: ib.RKey(r.mr.RKey()), Len: 8}
	data := append([]byte(nil), s.encode()...)
	heard := false
	for until := r.b.Now() + aliveWithin; !heard; {
		if r.b.Now() > until {
			return errors.New("the target does not answer a WRITE any more")
		}
		if err := r.send(Packet{Data: data}); err != nil {
			return err
		}
		r.res.Said--
		for range 100 {
			d, ok, err := r.b.Recv(50 * time.Millisecond)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			var a ib.Packet
			if heard = a.Decode(d.Payload) == ib.DecodeOK && a.DestQP == c.Own &&
				a.Opcode == ib.RCAcknowledge && a.AETH.Syndrome.Kind() == ib.SyndromeACK; heard {
				break
			}
			r.speaker.Hear(d.Payload)
		}
	}
	return nil
}
