package matrix

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/internal/capture"
)

// captureSize makes FIRST, MIDDLE and LAST packets and pad bytes at an MTU of 1024.
const captureSize = 3*1024 + 5

// Capture does each operation once in each role and family, with a capture at path, and
// has tshark look at it: no packet may be malformed, and each opcode must be there.
func (e *Env) Capture(ctx context.Context, path string) error {
	a, b := e.Subject, e.Ref
	mine := func(p *ether.Packet) bool {
		for _, f := range []peer.Family{peer.V4, peer.V6} {
			x, y := a.Addr(f), b.Addr(f)
			if p.Src == x && p.Dst == y || p.Src == y && p.Dst == x {
				return true
			}
		}
		return false
	}
	capt, err := e.Wire.Capture(path, mine)
	if err != nil {
		return err
	}
	if err := e.Run(ctx, "capture"); err != nil {
		return errors.Join(err, capt.Close())
	}
	if err := capt.Close(); err != nil {
		return err
	}
	row := e.row("capture", "tshark", requester)
	row.Authority = "Wireshark's dissector"
	row.MTU, row.Size = 1024, captureSize
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		e.Report.Add(row.skipped("tshark is not installed"))
		return nil
	}
	row.Detail, err = dissect(ctx, tshark, path, capt.Opcodes())
	if x := (*exec.ExitError)(nil); errors.As(err, &x) && !x.Exited() {
		// Seen as a user without a home. That says nothing of the packets.
		e.Report.Add(row.skipped(fmt.Sprintf("tshark crashes: %v", x)))
		return nil
	}
	e.Report.Add(row.ended(err))
	return nil
}

// captureJobs makes the rows of the operations that are captured.
func (e *Env) captureJobs(r role) (jobs []job) {
	for _, f := range bothFamilies {
		for _, t := range typedOps {
			if e.Subject != nil && lacks(t, e.Subject, e.Ref) != "" {
				continue
			}
			size := captureSize
			if t.typ == peer.UD {
				size = 101
			}
			row := e.row("capture", t.String(), r)
			row.MTU, row.Size, row.Family, row.Authority = 1024, size, string(f), t.clause()
			j := oneRow(row, func(p *pair, row *Row) error {
				par := defaults(t.typ, f, row.MTU)
				return row.whileLost(p, par, func() error {
					c, err := p.connect(par)
					if err != nil {
						return err
					}
					defer c.close()
					tr := e.Wire.Trace(c.between())
					defer tr.Stop()
					first := c.psn
					return c.seen(c.transfer(t.op, size), tr, first)
				})
			})
			j.blind = true
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// dissect compares tshark's view of a capture with the wire's: as many packets of each
// opcode, none malformed.
func dissect(ctx context.Context, tshark, path string, opcodes map[uint8]int) (string, error) {
	out, err := exec.CommandContext(ctx, tshark, "-n", "-r", path, "-T", "fields", "-e",
		"infiniband.bth.opcode", "-e", "frame.protocols", "-e", "_ws.malformed").Output()
	if err != nil {
		return "", fmt.Errorf("tshark: %w", err)
	}
	return dissected(string(out), path, opcodes)
}

// dissected is dissect, of what tshark printed.
func dissected(out, path string, opcodes map[uint8]int) (string, error) {
	diff := map[int]int{}
	for op, n := range opcodes {
		diff[int(op)] = n
	}
	kinds, packets := len(diff), 0
	for i, l := range strings.Split(strings.TrimRight(out, "\n"), "\n") {
		op, rest, _ := strings.Cut(l, "\t")
		protocols, malformed, _ := strings.Cut(rest, "\t")
		if malformed != "" && !capture.Guessed(protocols) {
			return "", fmt.Errorf("tshark calls packet %d of %s malformed: %s", i+1, path, malformed)
		}
		n, err := strconv.ParseInt(op, 0, 32)
		if err != nil {
			return "", fmt.Errorf("tshark shows no opcode in packet %d of %s", i+1, path)
		}
		diff[int(n)]--
		packets++
	}
	for op, n := range diff {
		if n != 0 {
			return "", fmt.Errorf("tshark sees %d packets of opcode %#02x less than there were", n, op)
		}
	}
	return fmt.Sprintf("%d packets of %d opcodes, none malformed", packets, kinds), nil
}
