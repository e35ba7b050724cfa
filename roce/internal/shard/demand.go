package shard

// demand notices that other threads want the CPU on which a receiver looks for packets. Looks that
// find nothing then take the time that the peer needs to answer. Many conversations on few CPUs
// would all spend most of it so, and none finds out by itself, as tryout does, that sharing is
// better: the time between its packets is that of the others' looks.
//
// A yield tells. To nobody it takes as long as a system call, and several times that if another
// thread runs. A receiver that keeps its CPU yields once before it sleeps, which costs the least
// there.
type demand struct {
	high     share // how many yields let another run; a look that needs none counts as one to nobody
	toNobody int64 // the least that a yield has taken, ns
}

// exceeds reports whether most looks find nothing while others want the CPU, or most yields of a
// receiver that shares it let others run.
func (d *demand) exceeds() bool { return d.high >= 1./2 }

// found notes that a look without yields has found something.
func (d *demand) found() { d.high.note(false) }

// yielded notes how long a yield took, and reports whether another thread ran.
func (d *demand) yielded(took int64) bool {
	if d.toNobody == 0 || took < d.toNobody {
		d.toNobody = max(took, 1)
	}
	ran := took > 4*d.toNobody
	d.high.note(ran)
	return ran
}
