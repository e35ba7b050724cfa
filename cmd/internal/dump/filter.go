package dump

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// filter chooses packets: one that fits each of the lists that are not empty.
type filter struct {
	qps    []ib.QPN
	addrs  []netip.Addr
	ops    []string
	errors bool
}

// operations are the names that --op takes.
var operations = map[string]func(p *pcap.Packet, o *ib.OpcodeInfo) bool{
	"send":  func(_ *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Op == ib.OpSend && o.Transport != ib.UD },
	"write": func(_ *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Op == ib.OpWrite },
	"read":  func(_ *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Op == ib.OpRead || o.Op == ib.OpReadResponse },
	"atomic": func(_ *pcap.Packet, o *ib.OpcodeInfo) bool {
		return o.Op == ib.OpCompareSwap || o.Op == ib.OpFetchAdd || o.Op == ib.OpAtomicAck || o.Op == ib.OpAtomicWrite
	},
	"flush": func(_ *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Op == ib.OpFlush },
	"ack":   func(_ *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Op == ib.OpAcknowledge },
	"nak": func(p *pcap.Packet, o *ib.OpcodeInfo) bool {
		return o.Headers&ib.HasAETH != 0 && p.AETH.Syndrome.Kind() != ib.SyndromeACK
	},
	"cnp": func(_ *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Op == ib.OpCNP },
	"ud":  func(_ *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Transport == ib.UD },
	"cm":  func(p *pcap.Packet, o *ib.OpcodeInfo) bool { return o.Transport == ib.UD && p.DestQP == ib.QPNGSI },
}

const operationNames = "send, write, read, atomic, flush, ack, nak, cnp, ud, cm"

func (f *filter) addQP(s string) error {
	n, err := strconv.ParseUint(s, 0, 24)
	if err != nil {
		return fmt.Errorf("%q is not a queue pair number", s)
	}
	f.qps = append(f.qps, ib.QPN(n))
	return nil
}

func (f *filter) addAddr(s string) error {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return err
	}
	f.addrs = append(f.addrs, a.Unmap())
	return nil
}

func (f *filter) addOps(s string) error {
	for o := range strings.SplitSeq(s, ",") {
		if operations[o] == nil {
			return fmt.Errorf("%q is not one of %s", o, operationNames)
		}
		f.ops = append(f.ops, o)
	}
	return nil
}

// admits reports whether the filter lets a packet through.
func (f *filter) admits(p *pcap.Packet) bool {
	return some(f.qps, func(q ib.QPN) bool { return q == p.DestQP || p.Opcode.Has(ib.HasDETH) && q == p.DETH.SrcQP }) &&
		some(f.addrs, func(a netip.Addr) bool { return a == p.Flow.Src || a == p.Flow.Dst }) &&
		some(f.ops, func(o string) bool {
			return p.Problem == "" && p.ICMP == nil && operations[o](p, p.Opcode.Info())
		}) &&
		(!f.errors || p.ICRC == pcap.ICRCWrong || p.Problem != "" || p.ICMP != nil ||
			operations["nak"](p, p.Opcode.Info()))
}

// some reports whether one of a list fits, or there is no list.
func some[T interface{}](list []T, fits func(T) bool) bool {
	for _, x := range list {
		if fits(x) {
			return true
		}
	}
	return len(list) == 0
}
