package lesson

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
)

// exercises are lessons with a goal: whether the numbers reach it is read off the run.
func exercises() []lesson {
	return []lesson{
		{
			name: "survive", title: "Exercise: make this transfer survive", after: []string{"gone"},
			text: `The network is cut for 900 ms, right when A begins to write. Choose A's ACK timeout and its retries so that the WRITE survives. But a long timeout makes every lone loss a long stall, so A must not wait longer than 200 ms for any one answer.`,
			params: []param{
				{name: "timeout", def: 14, min: 10, max: 20,
					help: "the code of A's ACK timeout: 14 is 67 ms, each step doubles it"},
				{name: "retries", def: 3, min: 0, max: 7, help: "how often A sends again (retry_cnt)"},
			},
			cfg:  cutConfig,
			warm: true, play: func(r *run) error {
				r.v["back"] = 900
				defer delete(r.v, "back")
				return playCut(r)
			},
			goal: func(r *run) (string, error) {
				sent, _, err := r.s.Fates(0)
				if err != nil {
					return "", err
				}
				longest := int64(0)
				for i := 1; i < len(sent); i++ {
					if sent[i].PSN == sent[i-1].PSN {
						longest = max(longest, sent[i].AtNs-sent[i-1].AtNs)
					}
				}
				switch {
				case r.wcs[0].Status != verbs.WCSuccess:
					return "", fmt.Errorf("A gave up after %.0f ms, and the network was cut for 900: %v",
						float64(r.tookNs)/1e6, r.wcs[0].Status)
				case longest > 200e6:
					return "", fmt.Errorf("the WRITE survives, but A once waited %.0f ms before it tried again",
						float64(longest)/1e6)
				}
				return fmt.Sprintf(
					"A tried %d times, never waited longer than %.0f ms, and had its answer after %.0f ms.",
					len(sent)-3, float64(longest)/1e6, float64(r.tookNs)/1e6), nil
			},
			tries: []string{"timeout=14 retries=7", "timeout=16 retries=4", "timeout=15 retries=5",
				"timeout=15 retries=7"},
		},
		{
			name: "enough", title: "Exercise: enough receives, and no more", after: []string{"rnr"},
			text: `A sends 12 messages, one every 10 us. B needs 25 us for each, and posts a receive again when it is done with one. How many receives must it have posted before, so that no message is refused? More would be memory for nothing.`,
			params: []param{
				{name: "recvs", def: 1, min: 1, max: 16, help: "receives that B posts before A begins"},
			},
			play: playEnough,
			goal: func(r *run) (string, error) {
				if n := r.s.Hosts[0].Device.Counters().RcvdRNRErr; n > 0 {
					return "", fmt.Errorf("%d messages were refused with an RNR NAK", n)
				}
				if r.v["recvs"] > 1 {
					fewer, err := r.l.perform(values{"recvs": r.v["recvs"] - 1})
					if err != nil {
						return "", err
					}
					if fewer.s.Hosts[0].Device.Counters().RcvdRNRErr == 0 {
						return "", fmt.Errorf("nothing is refused, but with %d nothing would be either", r.v["recvs"]-1)
					}
				}
				return "nothing is refused, and with one receive less there would be an RNR NAK.", nil
			},
			tries: []string{"recvs=4", "recvs=7", "recvs=8", "recvs=12"},
		},
		{
			name: "path", title: "Exercise: the longest packets that pass", after: []string{"mtu"},
			text: `A writes 20,000 bytes. Nobody has said how long packets may be on this network. Choose the path MTU of both ends so that the WRITE succeeds, with as few packets as possible.`,
			params: []param{
				{name: "mtu", def: 5, min: 1, max: 5, help: mtuHelp},
			},
			cfg: func(v values) stage.Config {
				return stage.Config{MTU: ib.MTU(v["mtu"]), Attr: func(_ int, a *verbs.ConnAttr) { a.RetryCnt = 2 }}
			},
			play: func(r *run) error {
				mtu := ib.MTU(r.v["mtu"]).Bytes()
				for i := range packets(20_000, ib.MTU(r.v["mtu"])) {
					if min(mtu, 20_000-i*mtu) > 2048 {
						r.s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, PSN: ib.PSN(1001).Add(i), HasPSN: true})
					}
				}
				if err := r.do(r.s.Write(0, 64)); err != nil {
					return err
				}
				return r.do(r.s.Write(0, 20_000))
			},
			goal: func(r *run) (string, error) {
				if s := r.wcs[0].Status; s != verbs.WCSuccess {
					f, err := r.facts()
					if err != nil {
						return "", err
					}
					return "", fmt.Errorf("the long WRITE failed (%v): %s", s, claims[claimLong].yes(f))
				}
				if r.v["mtu"] < 5 {
					longer, err := r.l.perform(values{"mtu": r.v["mtu"] + 1})
					if err != nil {
						return "", err
					}
					if longer.wcs[0].Status == verbs.WCSuccess {
						return "", fmt.Errorf("it succeeds with %d packets, but longer ones would pass",
							packets(20_000, ib.MTU(r.v["mtu"])))
					}
				}
				return fmt.Sprintf("%d packets, and the next longer ones do not pass.",
					packets(20_000, ib.MTU(r.v["mtu"]))), nil
			},
			tries: []string{"mtu=4", "mtu=3"},
		},
		{
			name: "missing", title: "Exercise: which packet is missing?", after: []string{"loss"}, hidden: true,
			text: `The capture was taken on host B. One packet of A's WRITE did not arrive the first time. Which PSN has it?`,
			params: []param{
				{name: "psn", min: 0, max: ib.PSNMask, help: "your answer; 0: you do not know yet"},
				{name: "seed", def: 1, min: 1, max: 1_000_000, help: "of the capture"},
			},
			view: func(values) stage.View { return stage.At1 },
			warm: true, play: func(r *run) error {
				rng := rand.New(rand.NewPCG(uint64(r.v["seed"]), 0))
				n := 6 + rng.IntN(6)
				r.lose(0, first.Add(1+rng.IntN(n-2)))
				return r.do(r.s.Write(0, n*1024))
			},
			goal: func(r *run) (string, error) {
				f, err := r.facts()
				if err != nil {
					return "", err
				}
				p := f.lostRequests[0]
				switch psn := ib.PSN(r.v["psn"]); {
				case psn == 0:
					return "", noAnswer("Your answer, if it is 1003: roce lesson missing psn=1003")
				case psn != p.PSN:
					sent, _, err := r.s.Fates(0)
					if err != nil {
						return "", err
					}
					i := slices.IndexFunc(sent, func(x stage.Fate) bool { return x.PSN == psn })
					if i < 0 {
						return "", fmt.Errorf("A sent no packet with PSN %d", psn)
					}
					return "", fmt.Errorf("PSN %d arrived: packet %d", psn, sent[i].Arrived)
				}
				return where(f.lostRequests, "A", "B") + ": the NAK names it, and it comes again.", nil
			},
			tries: []string{"psn=1003", "psn=1004", "psn=1005", "psn=1006", "psn=1007", "psn=1008", "psn=1009"},
		},
		{
			name: "fenced", title: "Exercise: one fence, where it is needed", after: []string{"fence"},
			text: `A posts four requests at once. 1: READ B's first 8 bytes into x. 2: WRITE y to B's second 8 bytes; y has nothing to do with x. 3: WRITE x to B's third 8 bytes. 4: FETCH_ADD on B's fourth. Which one needs the fence, so that 3 writes what 1 has read, and nothing waits that need not?`,
			params: []param{
				{name: "fence", def: 0, min: 0, max: 4, help: "the request that has the fence; 0: none"},
			},
			warm: true, play: func(r *run) error {
				copy(r.b(), "new data")
				copy(r.s.Hosts[0].MR.Bytes(), "old data")
				wrs := []verbs.SendWR{r.word(verbs.WRRead, 0, 0), r.word(verbs.WRWrite, 64, 8),
					r.word(verbs.WRWrite, 0, 16), r.word(verbs.WRFetchAdd, 72, 24)}
				if n := r.v["fence"]; n > 0 {
					wrs[n-1].Flags |= verbs.SendFence
				}
				err := r.do(wrs...)
				r.say("B's third 8 bytes: %q.", r.b()[16:24])
				return err
			},
			goal: func(r *run) (string, error) {
				if string(r.b()[16:24]) != "new data" {
					return "", fmt.Errorf("request 3 has written %q: it left before the READ was done", r.b()[16:24])
				}
				sent, _, err := r.s.Fates(0)
				if err != nil {
					return "", err
				}
				read, write := sent[3], sent[4]
				if write.AtNs > read.AtNs {
					return "",
						fmt.Errorf("request 3 has written what was read, but request 2 waited %.0f us for nothing",
							float64(write.AtNs-read.AtNs)/1000)
				}
				return "request 3 waits for the READ, and request 2 left with it.", nil
			},
			tries: []string{"fence=1", "fence=2", "fence=3", "fence=4"},
		},
	}
}

// playEnough sends 12 messages, 10 us apart, to a B that needs 25 us for each.
func playEnough(r *run) error {
	const n, apart, needs = 12, 10_000, 25_000
	if err := r.s.Recv(1, r.v["recvs"], 64); err != nil {
		return err
	}
	done, at := 0, r.s.Net.Now()
	r.watch(1, 10_000, func() bool { // B's program
		b := r.s.Hosts[1]
		if got := b.States[len(b.States)-1].Completions; got > done {
			if at == 0 {
				at = r.s.Net.Now() + needs
			}
			if r.s.Net.Now() >= at {
				done++
				at += needs
				if done == got {
					at = 0
				}
				_ = r.s.Recv(1, 1, 64)
			}
		}
		return done < n
	})
	for range n {
		w := r.s.Send(0, 64)
		if err := r.do(w); err != nil {
			return err
		}
		r.s.Net.RunFor(apart - 4000)
	}
	r.said = nil
	r.say("At %.1f us all %d messages are done. A was refused %d times.", r.us(), n,
		r.s.Hosts[0].Device.Counters().RcvdRNRErr)
	return nil
}
