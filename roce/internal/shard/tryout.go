package shard

// tryout decides whether to keep the CPU while looking for packets or to share it, by what each way
// has cost: the time from one packet to the next.
//
// No other sign tells them apart. On free CPUs keeping is two to five times as fast. Where a
// neighbour has one of two CPUs, a receiver that keeps the other has its peer wait for it. The
// looking thread always has a CPU there and notices nothing; sharing is nearly twice as fast.
//
// So tryout tries the other way for a period now and then, and the more rarely the more often it
// was slower. A try that is four times as slow after an eighth of the period ends there. Sharing
// must win twice. Where nearly all looks find something there is no doubt, and nothing is tried. A
// conversation of fewer than tryoutPackets packets in a period decides nothing, and the receiver
// looks.
type tryout struct {
	shared  bool     // the way that was better: to share
	other   bool     // the other one is being tried
	won     bool     // to share was better the last time
	spent   int64    // in this period, ns
	packets int64    // in this period
	cost    [2]int64 // of the last periods: ns for 16 packets, keeping and sharing
	left    int      // periods until the other way is tried
	wait    int      // the same, after it was tried the next time
	last    int64    // when something came
}

// looks reports whether to look and keep the CPU.
func (t *tryout) looks() bool { return t.shared == t.other }

// came notes how many packets have come, and whether it is in doubt that looking is better.
func (t *tryout) came(now int64, packets int, doubt bool) {
	if !doubt && !t.shared && !t.other {
		*t = tryout{last: now}
		return
	}
	took := now - t.last
	t.last = now
	if took > tryoutNs {
		return // a pause of the conversation, or of the process
	}
	t.spent += took
	t.packets += int64(packets)
	way, against := &t.cost[0], &t.cost[1]
	if !t.looks() {
		way, against = against, way
	}
	cost := t.spent * 16 / max(t.packets, 1)
	hopeless := t.other && t.spent >= tryoutNs/8 && cost > 4**against
	if t.spent < tryoutNs && !hopeless {
		return
	}
	few := t.packets < tryoutPackets && !hopeless
	t.spent, t.packets = 0, 0
	if few {
		t.other = false
		return
	}
	if !t.other {
		if *way == 0 {
			*way = cost
		}
		*way += (cost - *way) / 4
		if t.left--; t.left <= 0 {
			t.other = true
		}
		return
	}
	*way, t.other = cost, false
	// If both ends share one that looks gains little by itself. So a little is enough, and once.
	win := cost < *against-*against/8
	if t.shared {
		win = cost < *against-*against/16
	}
	switch {
	case !win:
		t.won = false
	case t.shared || t.won:
		t.shared, t.won, t.wait = !t.shared, false, 0
	default:
		t.won, t.left = true, 1
		return
	}
	t.wait = min(2*max(t.wait, 2), maxTryoutWait)
	t.left = t.wait
}
