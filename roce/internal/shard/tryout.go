package shard

// tryout decides whether to keep the CPU while it looks for packets, or to share it, by what both
// have brought: the time that a packet took, from the one before it.
//
// No other sign tells them apart. Where CPUs are free, to keep it is two to five times as fast.
// Where a neighbour has one of two CPUs, who keeps it has the peer wait for the other one. The
// thread that looks always has a CPU there and notices nothing; to share is nearly twice as fast.
//
// So the other way is tried now and then for a period, and the more rarely the oftener it was
// slower. To share has to win twice. Where looks find something nearly always there is no doubt,
// and nothing is tried.
// A conversation of fewer packets decides nothing, and is looked for.
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

// came notes that so many packets have come, and whether it is in doubt that looking is better.
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
	if t.spent < tryoutNs {
		return
	}
	cost, few := t.spent*16/max(t.packets, 1), t.packets < tryoutPackets
	t.spent, t.packets = 0, 0
	if few {
		t.other = false
		return
	}
	way, against := &t.cost[0], &t.cost[1]
	if !t.looks() {
		way, against = against, way
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
