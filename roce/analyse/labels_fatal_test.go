package analyse_test

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// silenceLabels have requests that are never answered.
func silenceLabels() []label {
	gone := kinds(analyse.RetryExceeded, analyse.PeerGone)
	over := func(d *drawn) {
		switch d.IntN(4) {
		case 0:
			d.s.Net.RunFor(time.Duration(1+d.IntN(2000)) * time.Millisecond)
			d.aside(64)
		case 1:
			d.s.Net.RunFor(time.Duration(1+d.IntN(2000)) * time.Millisecond)
		}
	}
	drop := func(d *drawn, host int, o ...ib.Opcode) {
		for _, o := range o {
			d.s.Hosts[host].Faults.Add(fault.Rule{Action: fault.Drop, Opcode: o, HasOpcode: true})
		}
	}
	short := func(d *drawn) {
		for range 1 + d.IntN(10) {
			d.do(d.s.Write(0, 1+d.IntN(d.mtu/4)))
			if d.IntN(3) == 0 {
				d.do(d.s.FetchAdd(0, 1))
			}
		}
	}
	big := func(d *drawn, c *stage.Config) { // path MTUs of packets that may be too long
		c.MTU = ib.MTU1024 + ib.MTU(d.IntN(3))
		d.mtu = c.MTU.Bytes()
	}
	longRequests := []ib.Opcode{ib.RCWriteFirst, ib.RCWriteMiddle, ib.RCSendFirst, ib.RCSendMiddle}
	span := func(d *drawn, w *verbs.SendWR) [2]ib.PSN { return [2]ib.PSN{d.psn, d.psn.Add(d.span(w))} }
	return []label{
		{name: "nothing arrives", play: func(d *drawn) truth {
			d.before()
			d.s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, QP: d.s.Hosts[0].QP.Num()})
			w := d.any()
			x := truth{hit: []ib.PSN{d.psn}, span: span(d, &w), named: at(true, false, false, gone...), sure: gone}
			d.fail(w)
			over(d)
			return x
		}},
		{name: "no answer arrives", play: func(d *drawn) truth {
			d.before()
			d.s.Hosts[1].Faults.Add(fault.Rule{Action: fault.Drop, QP: d.s.Hosts[1].QP.Num()})
			w := d.any()
			x := truth{hit: []ib.PSN{d.psn, d.psn.Add(d.span(&w) - 1)}, span: span(d, &w), named: everywhere(gone...),
				sure: append(gone, analyse.LostReadResponse, analyse.LostAck, analyse.LostAtomicAck)}
			x.named[1] = append(x.named[1:2:2][0], analyse.LostReadResponse, analyse.LostAck, analyse.LostAtomicAck)
			d.fail(w)
			over(d)
			return x
		}},
		{name: "the peer has died", play: func(d *drawn) truth {
			d.before()
			require.NoError(d.t, d.s.Hosts[1].Faults.Close())
			w := d.any()
			x := truth{hit: []ib.PSN{d.psn}, span: span(d, &w), named: at(true, false, true, gone...), sure: gone}
			d.fail(w)
			if d.IntN(2) == 0 {
				d.s.Net.RunFor(time.Duration(1+d.IntN(2000)) * time.Millisecond)
			}
			return x
		}},
		{name: "the peer has died, two queue pairs ask", play: func(d *drawn) truth {
			d.before()
			d.aside(64)
			require.NoError(d.t, d.s.Hosts[1].Faults.Close())
			w := d.any()
			x := truth{named: at(true, false, true, gone...), sure: gone}
			d.fail(w)
			require.NotEqual(d.t, verbs.WCSuccess, d.aside(64))
			return x
		}},
		{name: "the peer was never there", play: func(d *drawn) truth {
			require.NoError(d.t, d.s.Hosts[1].Faults.Close())
			w := d.any()
			x := truth{named: at(true, false, true, gone...), sure: gone}
			d.fail(w)
			if d.IntN(2) == 0 {
				d.s.Net.RunFor(time.Duration(1+d.IntN(2000)) * time.Millisecond)
			}
			return x
		}},
		{name: "the peer dies at the first long message", cfg: big, play: func(d *drawn) truth {
			// It looks as if long packets vanished.
			short(d)
			require.NoError(d.t, d.s.Hosts[1].Faults.Close())
			w := d.s.Write(0, d.packets(2, 6))
			x := truth{hit: []ib.PSN{d.psn}, span: span(d, &w), named: at(true, false, true, gone...), sure: gone}
			d.fail(w)
			return x
		}},
		{name: "long packets vanish", cfg: big, play: func(d *drawn) truth {
			short(d)
			drop(d, 0, longRequests...)
			w := d.message(d.packets(2, 6))
			x := truth{hit: []ib.PSN{d.psn}, span: span(d, &w), named: everywhere(analyse.PMTUBlackhole),
				sure: kinds(analyse.RetryExceeded, analyse.LostRequest)}
			d.fail(w)
			over(d)
			return x
		}},
		{name: "long packets vanish, others go on", cfg: big, play: func(d *drawn) truth {
			short(d)
			drop(d, 0, longRequests...)
			w := d.message(d.packets(2, 6))
			x := truth{hit: []ib.PSN{d.psn}, span: span(d, &w), named: everywhere(analyse.PMTUBlackhole),
				sure: kinds(analyse.RetryExceeded, analyse.LostRequest)}
			d.fail(w)
			for range 1 + d.IntN(4) {
				d.aside(1 + d.IntN(100))
			}
			return x
		}},
		{name: "long responses vanish", cfg: big, play: func(d *drawn) truth {
			short(d)
			d.do(d.s.Read(0, 8))
			w := d.s.Read(0, d.packets(2, 6))
			for i := range d.span(&w) - 1 { // whatever they are called
				d.s.Hosts[1].Faults.Add(fault.Rule{
					Action: fault.Drop, QP: d.s.Hosts[1].QP.Num(), PSN: d.psn.Add(i), HasPSN: true,
				})
			}
			x := truth{hit: []ib.PSN{d.psn}, span: span(d, &w), named: everywhere(analyse.PMTUBlackhole),
				sure: kinds(analyse.RetryExceeded, analyse.LostReadResponse)}
			d.fail(w)
			over(d)
			return x
		}},
		{name: "a blackhole after long packets", cfg: big, play: func(d *drawn) truth {
			// Long ones were acknowledged, with short ones behind them.
			for range 1 + d.IntN(5) {
				d.do(d.s.Write(0, d.packets(2, 5)), d.s.Write(0, 1+d.IntN(100)))
			}
			d.s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, QP: d.s.Hosts[0].QP.Num()})
			w := d.s.Write(0, d.packets(1, 6))
			x := truth{hit: []ib.PSN{d.psn}, span: span(d, &w), named: at(true, false, false, gone...), sure: gone}
			d.fail(w)
			for range d.IntN(4) {
				d.aside(1 + d.IntN(100))
			}
			return x
		}},
	}
}

// access is a WRITE or a READ of A.
func (d *drawn) access() verbs.SendWR {
	w := d.s.Write(0, d.packets(1, 9))
	if d.IntN(2) == 0 {
		w.Opcode = verbs.WRRead
	}
	return w
}

// region is a WRITE of A to a region of its own at B.
func (d *drawn) region(access verbs.Access) verbs.SendWR {
	w := d.s.Write(0, d.packets(1, 5))
	var err error
	d.other, err = d.s.Hosts[1].PD.RegisterMR(make([]byte, 1<<16), access, nil)
	require.NoError(d.t, err)
	w.RemoteAddr, w.RKey = d.other.Addr(), d.other.RKey()
	return w
}

// withCauses says which causes are right.
func withCauses(play func(d *drawn) truth, causes ...string) func(d *drawn) truth {
	return func(d *drawn) truth {
		x := play(d)
		x.causes = causes
		return x
	}
}

// mistakeLabels are what applications get wrong.
func mistakeLabels() []label {
	refused := func(k analyse.Kind, make func(d *drawn) verbs.SendWR) func(d *drawn) truth {
		return func(d *drawn) truth {
			d.before()
			w := make(d)
			x := truth{hit: []ib.PSN{d.psn, d.psn.Add(d.span(&w) - 1)},
				span: [2]ib.PSN{d.psn, d.psn.Add(d.span(&w))}, named: everywhere(k)}
			d.fail(w)
			if d.IntN(2) == 0 {
				d.aside(64)
			}
			return x
		}
	}
	return []label{
		{name: "no receive", play: func(d *drawn) truth {
			d.before()
			d.s.Net.At(d.s.Net.Now()+int64(1+d.IntN(4))*1_000_000,
				func() { require.NoError(d.t, d.s.Recv(1, 1, 64<<10)) })
			w := d.s.Send(0, d.packets(1, 9))
			x := truth{hit: []ib.PSN{d.psn, d.psn.Add(d.span(&w) - 1)},
				span: [2]ib.PSN{d.psn, d.psn.Add(d.span(&w))}, named: everywhere(analyse.RNR)}
			d.do(w)
			d.after()
			return x
		}},
		{name: "no receive at all", cfg: func(d *drawn, c *stage.Config) {
			n := uint8(1 + d.IntN(6))
			c.Attr = func(_ int, a *verbs.ConnAttr) { a.RNRRetry, a.Timeout = n, 10 }
		}, play: func(d *drawn) truth {
			d.before()
			w := d.s.Send(0, d.packets(1, 9))
			x := truth{hit: []ib.PSN{d.psn, d.psn.Add(d.span(&w) - 1)}, span: [2]ib.PSN{d.psn, d.psn.Add(d.span(&w))},
				named: everywhere(analyse.RNRExceeded), sure: kinds(analyse.RNR)}
			d.fail(w)
			d.s.Net.RunFor(time.Duration(300+d.IntN(1000)) * time.Millisecond)
			d.aside(64)
			return x
		}},
		{name: "wrong key", play: withCauses(refused(analyse.RemoteAccess, func(d *drawn) verbs.SendWR {
			w := d.access()
			w.RKey ^= 0x100
			return w
		}), "key")},
		{name: "beyond the end", play: withCauses(refused(analyse.RemoteAccess, func(d *drawn) verbs.SendWR {
			d.do(d.s.Write(0, d.packets(1, 2))) // the key is good
			w := d.access()
			w.RemoteAddr += uint64(d.s.Hosts[1].MR.Len())
			return w
		}), "range")},
		{name: "no right", play: withCauses(refused(analyse.RemoteAccess, func(d *drawn) verbs.SendWR {
			w := d.region(verbs.LocalWrite | verbs.RemoteWrite)
			d.do(w)
			w.Opcode = verbs.WRRead
			return w
		}), "right")},
		{name: "deregistered", play: withCauses(refused(analyse.RemoteAccess, func(d *drawn) verbs.SendWR {
			w := d.region(verbs.AccessAll)
			d.do(w)
			require.NoError(d.t, d.other.Close())
			return w
		}), "deregistered")},
		{name: "invalidated", play: withCauses(refused(analyse.RemoteAccess, func(d *drawn) verbs.SendWR {
			w := d.region(verbs.AccessAll | verbs.MWBind)
			b := d.s.Hosts[1]
			mw, err := b.PD.AllocMW(verbs.WindowType2B)
			require.NoError(d.t, err)
			key, err := b.QP.BindMW(1, mw, d.other, 0, d.other.Len(), verbs.RemoteWrite|verbs.RemoteRead,
				verbs.SendSignaled)
			require.NoError(d.t, err)
			_, err = d.s.Await(1, 1)
			require.NoError(d.t, err)
			w.RKey = key
			d.do(w)
			require.NoError(d.t, d.s.Recv(1, 1, 64<<10))
			inv := d.s.Send(0, 1+d.IntN(100))
			inv.Opcode, inv.InvalidateKey = verbs.WRSendInv, key
			d.do(inv)
			return w
		}), "invalidated")},
		{name: "misaligned atomic", play: refused(analyse.InvalidRequest, func(d *drawn) verbs.SendWR {
			w := d.s.FetchAdd(0, 1)
			w.RemoteAddr += uint64(1 + d.IntN(7))
			return w
		})},
		{name: "the receive has a wrong key", play: refused(analyse.RemoteOperational, func(d *drawn) verbs.SendWR {
			h := d.s.Hosts[1]
			require.NoError(d.t, h.QP.PostRecv(&verbs.RecvWR{ID: 1001, SGList: []verbs.SGE{
				{Addr: h.MR.Addr(), Length: 64 << 10, LKey: h.MR.LKey() ^ 0x100},
			}}))
			return d.s.Send(0, d.packets(1, 4))
		})},
		{name: "path MTUs differ", cfg: func(d *drawn, c *stage.Config) {
			was := c.Attr
			c.MTU = ib.MTU1024 + ib.MTU(d.IntN(3))
			d.mtu = c.MTU.Bytes()
			c.Attr = func(h int, a *verbs.ConnAttr) {
				was(h, a)
				if h == 1 {
					a.MTU = ib.MTU256 + ib.MTU(d.IntN(2))
				}
			}
		}, play: func(d *drawn) truth {
			for range d.IntN(10) {
				d.do(d.s.Write(0, 1+d.IntN(256)))
			}
			w := d.s.Write(0, d.packets(2, 6))
			x := truth{hit: []ib.PSN{d.psn}, named: everywhere(analyse.MTUMismatch),
				sure: kinds(analyse.InvalidRequest)}
			d.fail(w)
			return x
		}},
		{name: "no credits", cfg: func(_ *drawn, c *stage.Config) {
			for i := range c.Tuning {
				c.Tuning[i] = transport.Tuning{EndToEndCredits: true}
			}
		}, play: func(d *drawn) truth {
			for range d.IntN(8) {
				d.do(d.s.Write(0, d.packets(1, 3)))
			}
			require.NoError(d.t, d.s.Recv(1, 1, 64<<10))
			d.s.Net.At(d.s.Net.Now()+int64(2_000_000+d.IntN(3_000_000)),
				func() { require.NoError(d.t, d.s.Recv(1, 4, 64<<10)) })
			d.do(d.s.Send(0, 64), d.s.Send(0, 64), d.s.Send(0, 64), d.s.Send(0, 64))
			return truth{named: everywhere(analyse.CreditsExhausted), sure: kinds(analyse.RNR)}
		}},
	}
}
