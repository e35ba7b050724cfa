package cm

// rank is the order in which requests are served. A flood of forged REQs fills the backlog and the
// room for half-open connections, and an honest request would wait behind thousands. But a sender
// that forges addresses never hears an answer, and hardly sends anything twice. So requests of a
// better rank go first, take the place of others in a full backlog, and find room when others have
// used up theirs.
type rank uint8

const (
	proven   rank = iota // its address has recently confirmed a connection, or answered one of ours
	repeated             // it has come before, and found no place
	unknown
	numRanks
)

const (
	// maxProven and maxMissed are the minimum numbers of addresses, and of requests, to remember:
	// those of a flood of 10,000 a second for the 3 seconds in which most peers repeat themselves.
	maxProven = 1 << 12
	maxMissed = 1 << 15
)

// recent remembers the last n to 2n keys.
type recent[K comparable] struct {
	n        int
	new, old map[K]struct{}
}

func (r *recent[K]) add(k K) {
	if len(r.new) >= r.n {
		r.new, r.old = nil, r.new
	}
	if r.new == nil {
		r.new = map[K]struct{}{}
	}
	r.new[k] = struct{}{}
}

func (r *recent[K]) has(k K) bool {
	if _, ok := r.new[k]; ok {
		return true
	}
	_, ok := r.old[k]
	return ok
}

func (r *recent[K]) empty() bool { return len(r.new)+len(r.old) == 0 }

// prove records that a message of the peer had an ID that only the peer was told.
func (c *Conn) prove() {
	if !c.a.proven.has(c.remote) {
		c.a.proven.add(c.remote)
	}
}

// rankOf returns the rank of a request.
func (a *Agent) rankOf(k remoteKey) rank {
	switch {
	case a.proven.has(k.addr):
		return proven
	case a.missed.has(k):
		return repeated
	}
	return unknown
}

// first returns the request to serve next, or nil.
func (l *Listener) first() *Conn {
	for r := range l.requests {
		if c := l.requests[r].head; c != nil {
			return c
		}
	}
	return nil
}

// untakenRequests returns how many requests the owner has not taken.
func (l *Listener) untakenRequests() (n int) {
	for r := range l.requests {
		n += l.requests[r].len
	}
	return n
}

// displace drops the youngest request of a worse rank than r, if there is one.
func (l *Listener) displace(r rank) bool {
	for worse := unknown; worse > r; worse-- {
		if c := l.requests[worse].tail; c != nil {
			l.a.stats.DropBacklog++
			l.a.missed.add(c.remoteKey())
			c.remove()
			return true
		}
	}
	return false
}

// cameAgain raises the rank of a waiting request that came again.
func (c *Conn) cameAgain() {
	if c.request != nil && c.rank == unknown && c.listener != nil {
		c.unlist()
		c.rank = repeated
		c.listener.requests[repeated].push(c)
	}
}
