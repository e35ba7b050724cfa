package shard

// demand notices that other threads want the CPU on which a receiver looks for packets. Looks that
// find nothing then take the time that the peer needs to answer. Many conversations on few CPUs
// would all spend most of it so. tryout cannot find out that sharing is better there: the time
// between the packets of one conversation is that of the others' looks.
//
// A yield tells. To nobody it takes as long as a system call, and several times that if another
// thread runs. A receiver that keeps its CPU yields once before it sleeps, which costs the least
// there.
type demand struct {
	high     share // how many yields let another run; a look that needs none counts as one to nobody
	brief    share // the same, and for no longer than hoggedNs
	exceeds  bool  // most did, and since then not so few that nobody wants the CPU
	toNobody int64 // the least that a yield has taken, ns
}

// found notes that a look without yields has found something.
func (d *demand) found() {
	d.note(false)
	d.brief.note(false)
}

func (d *demand) note(ran bool) {
	d.high.note(ran)
	d.exceeds = d.high >= 1./2 || d.exceeds && d.high >= 1./8
}

// alternates reports whether threads take turns at the CPU by yields: four of the last shareOf
// let another run that soon gave the CPU back. Beside unrelated work there are two now and then.
func (d *demand) alternates() bool { return d.brief >= 1./8 }

// yielded notes how long a yield took, and reports whether another thread ran.
func (d *demand) yielded(took int64) bool {
	if d.toNobody == 0 || took < d.toNobody {
		d.toNobody = max(took, 1)
	}
	ran := took > 4*d.toNobody
	d.note(ran)
	d.brief.note(ran && took <= hoggedNs)
	return ran
}
