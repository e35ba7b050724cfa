package probe

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// clean is what is found of a path that does nothing.
func clean(t *testing.T, r *Result) {
	t.Helper()
	require.True(t, r.Reachable)
	for _, w := range []*Way{&r.Forward, &r.Back} {
		require.Equal(t, Good, w.ICRC)
		require.Equal(t, w.Src, w.SeenSrc)
		require.Equal(t, w.Dst, w.SeenDst)
		require.Zero(t, w.ID)
		require.False(t, w.NoDF)
		require.Equal(t, Mark{Tried: true, ECT: true, CE: true, DSCP: dscp, Sent: dscp}, w.ECN)
		require.Equal(t, 4096, w.MTU)
		require.False(t, w.Narrower)
	}
	require.True(t, r.Unasked)
	require.Equal(t, Burst{Sent: testBurst, Forward: Fate{Sent: testBurst}, Back: Fate{Sent: testBurst}}, r.Burst)
}

func TestCleanPath(t *testing.T) {
	over(t, func(w *wire) { w.header = true }, func(w *wire, s *Server, r *Result) {
		clean(t, r)
		require.True(t, r.Forward.Header)
		require.Equal(t,
			RTT{Samples: pings, Min: int64(2 * testDelay), P50: int64(2 * testDelay), P99: int64(2 * testDelay)}, r.RTT)
		// A window of packets of 4096 bytes in 2 ms at most.
		require.Positive(t, r.Goodput.Packets)
		require.LessOrEqual(t, r.Goodput.Bits, float64(maxWindow)*4096*8/0.002)
		require.Zero(t, r.Goodput.Lost)
		require.Zero(t, s.Stats().Foreign.Load()+s.Stats().NoToken.Load()+s.Stats().Throttled.Load())
	})
}

func TestNobodyThere(t *testing.T) {
	for _, c := range []struct {
		said error
		want string
	}{
		{nil, "nothing comes back"}, {unix.ECONNREFUSED, "nobody has the port"}, {unix.EHOSTUNREACH, "no way to it"},
		{unix.EPERM, "does not let the packets out"}, {unix.EIO, unix.EIO.Error()},
	} {
		over(t, func(w *wire) {
			w.path = func(p packet) []packet {
				if c.said != nil {
					w.sockets[p.from].errs <- c.said
				}
				return nil
			}
		}, func(_ *wire, _ *Server, r *Result) {
			require.False(t, r.Reachable)
			require.Contains(t, r.Silence, c.want)
		})
	}
}

// burstOf reports whether a packet is of the burst, and so is not asked for again.
func burstOf(p packet) bool { return len(p.b) == burstBytes }

func every(n int, f func(p packet) []packet) func(p packet) []packet {
	i := 0
	return func(p packet) []packet {
		if !burstOf(p) {
			return []packet{p}
		}
		if i++; i%n != 0 {
			return []packet{p}
		}
		return f(p)
	}
}

func TestLoss(t *testing.T) {
	drop := func(packet) []packet { return nil }
	over(t, func(w *wire) { w.path = pass(false, every(10, drop)) }, func(_ *wire, _ *Server, r *Result) {
		require.Equal(t, Fate{Sent: testBurst, Lost: testBurst / 10}, r.Burst.Forward)
		require.Equal(t, Fate{Sent: testBurst * 9 / 10}, r.Burst.Back)
	})
	over(t, func(w *wire) { w.path = pass(true, every(20, drop)) }, func(_ *wire, _ *Server, r *Result) {
		require.Equal(t, Fate{Sent: testBurst}, r.Burst.Forward)
		require.Equal(t, Fate{Sent: testBurst, Lost: testBurst / 20}, r.Burst.Back)
	})
}

func TestOrderAndDuplicates(t *testing.T) {
	late := func(p packet) []packet { p.late = 5 * time.Millisecond; return []packet{p} }
	over(t, func(w *wire) { w.path = pass(false, every(20, late)) }, func(_ *wire, _ *Server, r *Result) {
		// The last one has none behind it.
		require.Equal(t, testBurst/20-1, r.Burst.Forward.Reordered)
		require.Zero(t, r.Burst.Forward.Lost)
	})
	twice := func(p packet) []packet { return []packet{p, p} }
	over(t, func(w *wire) { w.path = pass(false, every(20, twice)) }, func(_ *wire, _ *Server, r *Result) {
		require.Equal(t, Fate{Sent: testBurst, Duplicate: testBurst / 20}, r.Burst.Forward)
		require.Equal(t, Fate{Sent: testBurst + testBurst/20}, r.Burst.Back)
	})
	over(t, func(w *wire) { w.path = pass(true, every(20, twice)) }, func(_ *wire, _ *Server, r *Result) {
		require.Equal(t, Fate{Sent: testBurst}, r.Burst.Forward)
		require.Equal(t, testBurst/20, r.Burst.Back.Duplicate)
		require.Zero(t, r.Burst.Back.Lost)
	})
}

func TestMarks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(tos uint8) uint8
		want   Mark
	}{
		"bleached": {func(tos uint8) uint8 { return tos &^ ecnMask }, Mark{Tried: true, DSCP: dscp, Sent: dscp}},
		"no DSCP": {func(tos uint8) uint8 { return tos & ecnMask },
			Mark{Tried: true, ECT: true, CE: true, Sent: dscp}},
		"CE lost": {func(tos uint8) uint8 { return tos&^ecnMask | ecnECT0 },
			Mark{Tried: true, ECT: true, DSCP: dscp, Sent: dscp}},
		"congested": {func(tos uint8) uint8 { return tos | ecnCE },
			Mark{Tried: true, ECT: true, CE: true, DSCP: dscp, Sent: dscp, Congest: 1}},
	} {
		for _, back := range []bool{false, true} {
			over(t, func(w *wire) {
				w.path = pass(back, func(p packet) []packet { p.tos = c.change(p.tos); return []packet{p} })
			}, func(_ *wire, _ *Server, r *Result) {
				fine := Mark{Tried: true, ECT: true, CE: true, DSCP: dscp, Sent: dscp}
				if back {
					require.Equal(t, fine, r.Forward.ECN, name)
					require.Equal(t, c.want, r.Back.ECN, name)
				} else {
					require.Equal(t, c.want, r.Forward.ECN, name)
					require.Equal(t, fine, r.Back.ECN, name)
				}
			})
		}
	}
}

// A NAT changes what the ICRC covers.
func TestNAT(t *testing.T) {
	over(t, func(w *wire) {
		w.path = func(p packet) []packet {
			switch {
			case !p.back && p.from.Port() != 4791:
				p.from = port(p.from.Addr(), p.from.Port()+7)
			case p.back && p.to.Port() > 50001:
				p.to = port(p.to.Addr(), p.to.Port()-7)
			}
			return []packet{p}
		}
	}, func(_ *wire, _ *Server, r *Result) {
		require.True(t, r.Reachable)
		require.Equal(t, Rewritten, r.Forward.ICRC)
		require.EqualValues(t, 50001, r.Forward.Src.Port())
		require.EqualValues(t, 50008, r.Forward.SeenSrc.Port())
		require.Equal(t, Rewritten, r.Back.ICRC)
		require.EqualValues(t, 50008, r.Back.Dst.Port())
		require.EqualValues(t, 50001, r.Back.SeenDst.Port())
	})
}

// A middlebox that changes bytes and repairs the UDP checksum.
func TestChangedBytes(t *testing.T) {
	change := func(p packet) []packet { p.b[len(p.b)-9] ^= 1; return []packet{p} }
	over(t, func(w *wire) {
		w.path = pass(false, func(p packet) []packet {
			if len(p.b) > packetBytes+8 {
				return change(p)
			}
			return []packet{p}
		})
	}, func(_ *wire, _ *Server, r *Result) {
		require.Equal(t, Bad, r.Forward.ICRC)
		require.Equal(t, Good, r.Back.ICRC)
		require.Equal(t, testBurst, r.Burst.Forward.BadICRC)
		require.Zero(t, r.Burst.Back.BadICRC)
	})
}

// What the receiving kernel drops, for a wrong checksum or a full buffer, is told from what never
// came, in both directions.
func TestDamageIsNoLoss(t *testing.T) {
	for _, back := range []bool{false, true} {
		over(t, func(w *wire) {
			n := 0
			w.path = pass(back, every(10, func(p packet) []packet {
				switch n++; n % 4 {
				case 0:
					return nil // lost
				case 1:
					w.sockets[p.to].full.Add(1)
				default:
					w.sockets[p.to].damaged.Add(1)
				}
				return nil
			}))
			if sock := w.sockets[port(serverAt, 4791)]; !back {
				sock.damaged.Store(1000) // before
			}
		}, func(_ *wire, _ *Server, r *Result) {
			spoilt, fine := r.Burst.Forward, r.Burst.Back
			if back {
				spoilt, fine = fine, spoilt
			}
			require.Equal(t, testBurst/10, spoilt.Lost)
			require.Equal(t, testBurst/20, spoilt.Damaged)
			require.Equal(t, testBurst/40, spoilt.Full)
			require.Zero(t, fine.Lost+fine.Damaged+fine.Full)
		})
	}
}

// All that comes back is damaged: that is said, and not only that nothing comes.
func TestAllAnswersDamaged(t *testing.T) {
	over(t, func(w *wire) {
		w.path = pass(true, func(p packet) []packet { w.sockets[p.to].damaged.Add(1); return nil })
	}, func(_ *wire, _ *Server, r *Result) {
		require.False(t, r.Reachable)
		require.Equal(t, helloTries, r.Damaged)
	})
}

// A server of before has no room for the counters in its answer, or leaves zeros.
func TestDropsOnTheWire(t *testing.T) {
	d, ok := decodeDrops(drops{7, 9}.encode())
	require.True(t, ok)
	require.Equal(t, drops{7, 9}, d)
	for _, b := range [][]byte{nil, make([]byte, dropsBytes), drops{1, 2}.encode()[:dropsBytes-1]} {
		_, ok := decodeDrops(b)
		require.False(t, ok)
	}
	m := message{Type: tallied}
	b := m.encode(nil, 0, drops{7, 9}.encode()...)
	require.Len(t, b, (packetBytes+3)&^3)
	_, ok = decodeDrops(behind(b))
	require.False(t, ok)
	d, ok = decodeDrops(behind(m.encode(nil, packetBytes+dropsBytes, drops{7, 9}.encode()...)))
	require.True(t, ok)
	require.Equal(t, drops{7, 9}, d)
}

func TestParseDrops(t *testing.T) {
	d, ok := parseSNMP("Ip: Forwarding\nIp: 1\nUdp: InDatagrams InCsumErrors RcvbufErrors\nUdp: 5 3 2\n")
	require.True(t, ok)
	require.Equal(t, drops{3, 2}, d)
	_, ok = parseSNMP("Udp: InDatagrams\n")
	require.False(t, ok)
	d, ok = parseSNMP6("Ip6InReceives 9\nUdp6RcvbufErrors 4\nUdp6InCsumErrors 6\nUdp6InErrors x\n")
	require.True(t, ok)
	require.Equal(t, drops{6, 4}, d)
	_, ok = (*dropCounters)(nil).read()
	require.False(t, ok)
}

// A router that writes identifications, or clears DF, shows only in the header.
func TestHeaderChanged(t *testing.T) {
	change := pass(false, func(p packet) []packet { p.id, p.noDF = 7, true; return []packet{p} })
	over(t, func(w *wire) { w.path, w.header = change, true }, func(_ *wire, _ *Server, r *Result) {
		require.True(t, r.Forward.Header)
		require.EqualValues(t, 7, r.Forward.ID)
		require.True(t, r.Forward.NoDF)
		require.Zero(t, r.Back.ID)
	})
	over(t, func(w *wire) { w.path = change }, func(_ *wire, _ *Server, r *Result) {
		require.False(t, r.Forward.Header)
		require.Zero(t, r.Forward.ID)
	})
}

// A firewall that keeps state lets answers in, and not packets from elsewhere.
func TestStatefulFirewall(t *testing.T) {
	over(t, func(w *wire) {
		w.path = pass(true, func(p packet) []packet {
			if p.from.Port() != 4791 {
				return nil
			}
			return []packet{p}
		})
	}, func(_ *wire, _ *Server, r *Result) {
		require.True(t, r.Reachable)
		require.False(t, r.Unasked)
		require.Empty(t, r.Untried)
	})
}

func TestPathMTU(t *testing.T) {
	const limit = 1100
	short := func(w *wire, tell bool) func(p packet) []packet {
		return func(p packet) []packet {
			if len(p.b) <= limit {
				return []packet{p}
			}
			if tell {
				w.sockets[p.from].errs <- unix.EMSGSIZE
			}
			return nil
		}
	}
	for _, tell := range []bool{false, true} {
		over(t, func(w *wire) { w.path = pass(false, short(w, tell)) }, func(_ *wire, _ *Server, r *Result) {
			require.Equal(t, 1024, r.Forward.MTU)
			require.Equal(t, 1024, r.Back.MTU) // nothing longer could be asked for
			require.True(t, r.Forward.Narrower)
			require.Equal(t, tell, r.Forward.Told)
			require.Equal(t, 1024, r.Goodput.MTU)
		})
	}
	over(t, func(w *wire) { w.path = pass(true, short(w, false)) }, func(_ *wire, _ *Server, r *Result) {
		require.Equal(t, 4096, r.Forward.MTU)
		require.Equal(t, 1024, r.Back.MTU)
		require.False(t, r.Forward.Narrower)
		require.True(t, r.Back.Narrower)
	})
}

// The server goes away in the middle: the probe ends, and says what it does not know.
func TestServerGone(t *testing.T) {
	var n atomic.Int64 // both sides send
	over(t, func(w *wire) {
		w.path = func(p packet) []packet {
			if n.Add(1) > 100 {
				return nil
			}
			return []packet{p}
		}
	}, func(_ *wire, _ *Server, r *Result) {
		require.True(t, r.Reachable)
		require.True(t, r.Burst.Uncounted)
		require.Zero(t, r.Burst.Forward)
		require.Zero(t, r.RTT)
	})
}
