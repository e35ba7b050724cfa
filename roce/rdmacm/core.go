package rdmacm

import "github.com/goroce/goroce/internal/core"

// Core is for the packages of this repository that build on this one; it is of no use to others.
func (id *ID) Core() core.Of[*idCore] { return core.New((*idCore)(id)) }

// idCore is an ID for package roce and for programs in other languages.
type idCore ID

// Over reports whether the connection of the ID has ended.
func (c *idCore) Over() bool {
	if c.s == nil {
		return true
	}
	c.s.LockAlways()
	defer c.s.Unlock()
	return (*ID)(c).state() == idOver
}

// NotifyEstablished says that the queue pair of an ID received something before the connection was
// confirmed (rdma_notify). An ID with a queue pair notices by itself.
func (c *idCore) NotifyEstablished() error {
	return (*ID)(c).do(func(int64, *agent) error {
		if c.conn != nil {
			c.conn.CommEstablished()
		}
		return nil
	})
}

// SetReuseAddr lets the ID share an address and port with other IDs for which it was also set, as
// long as none of them listens (RDMA_OPTION_ID_REUSEADDR). Call it before BindAddr.
func (c *idCore) SetReuseAddr(reuse bool) error {
	id := (*ID)(c)
	return id.do(func(int64, *agent) error {
		err := id.requireState("reuse address", idIdle)
		if err == nil {
			id.reuse = reuse
		}
		return err
	})
}
