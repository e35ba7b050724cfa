package matrix

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

// canaries are wrongs that the checks must find: a packet is changed on the way and its ICRC made
// right again, so that neither side can know. A check that passes all the same checks nothing.
var canaries = []struct {
	name string
	op   peer.Opcode
	size int
	at   position
	edit func(p *ether.Packet)
	want string // in the check's complaint
}{
	{"a byte of a WRITE", peer.OpWrite, faultSize, reqMiddle, flipLast, "data: byte"},
	{"a byte of a SEND", peer.OpSend, faultSize, reqLast, flipLast, "data: byte"},
	{"a byte of a READ response", peer.OpRead, faultSize, rspFirst, flipLast, "data: byte"},
	{"the immediate", peer.OpSendImm, faultSize, reqLast, func(p *ether.Packet) { p.Body()[3] ^= 1 }, "want immediate"},
	{"the address of a WRITE", peer.OpWrite, 64, reqOnly, func(p *ether.Packet) { p.Body()[7]-- },
		"guard before the data"},
	{"the addend", peer.OpFetchAdd, 8, reqOnly, func(p *ether.Packet) { p.Body()[19] ^= 2 }, "the value in memory"},
	{"the value returned", peer.OpFetchAdd, 8, ack, func(p *ether.Packet) { p.Body()[11] ^= 1 }, "the value returned"},
}

// flipLast changes the last byte of the payload.
func flipLast(p *ether.Packet) {
	b := p.Body()
	b[len(b)-1-int(p.Pad)] ^= 0x80
}

// canaryJobs makes the rows that check the checks.
func (e *Env) canaryJobs(r role) (jobs []job) {
	for _, k := range canaries {
		row := e.row("canaries", "finds a change of "+k.name, r)
		row.MTU, row.Size, row.Family, row.Fault = faultMTU, k.size, string(peer.V4), "rewrite"
		row.Authority = "of these checks: what is changed on the way must be found"
		jobs = append(jobs, oneRow(row, func(p *pair, row *Row) error {
			c, err := p.connect(defaults(peer.RC, peer.V4, faultMTU))
			if err != nil {
				return err
			}
			rule := &ether.Rule{Match: c.target(k.at, k.size), Kind: ether.Rewrite, Edit: k.edit}
			e.Wire.Add(rule)
			got := c.transfer(k.op, k.size)
			e.Wire.Remove(rule)
			c.close()
			switch {
			case rule.Hits() != 1:
				return errors.New("no packet was changed")
			case got == nil:
				return errors.New("the check passed although a packet was changed")
			case !strings.Contains(got.Error(), k.want):
				return fmt.Errorf("the check failed with %q, want %q", got, k.want)
			}
			row.Detail = got.Error()
			return nil
		}))
	}
	return jobs
}
