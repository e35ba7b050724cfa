package cm

// ageList is a list of connections from the oldest to the youngest. A connection is in at most one.
type ageList struct {
	head, tail *Conn
	len        int
}

func (l *ageList) push(c *Conn) {
	c.list, c.prev, c.next = l, l.tail, nil
	if l.tail != nil {
		l.tail.next = c
	} else {
		l.head = c
	}
	l.tail = c
	l.len++
}

// unlist removes c from its list, if any.
func (c *Conn) unlist() {
	l := c.list
	if l == nil {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.head = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.tail = c.prev
	}
	c.list, c.prev, c.next = nil, nil, nil
	l.len--
}
