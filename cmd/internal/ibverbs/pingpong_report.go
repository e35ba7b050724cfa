package ibverbs

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
)

// print tells the addresses of one side.
func (s *session) print(side string, dests []dest) {
	if s.o.JSON {
		return
	}
	for _, d := range dests {
		label, sep := "remote address:", ","
		if side == "local" {
			if label = "local address: "; s.o.Kind == UD {
				sep = ":" // as the original
			}
		}
		fmt.Fprintf(s.env.Stdout, "  %s LID 0x%04x, QPN 0x%06x, PSN 0x%06x%s GID %s\n", label, d.LID,
			uint32(d.QPN), uint32(d.PSN), sep, tool.GIDText(d.GID.Addr()))
	}
}

// result is what --json prints.
type result struct {
	Test     string  `json:"test"`
	Role     string  `json:"role"`
	Local    []peer  `json:"local"`
	Remote   []peer  `json:"remote"`
	Size     int     `json:"size"` // bytes
	Iters    int     `json:"iterations"`
	Bytes    int64   `json:"bytes"` // both directions
	Seconds  float64 `json:"seconds"`
	Mbit     float64 `json:"mbit_per_sec"`
	UsecIter float64 `json:"usec_per_iter"`
}

type peer struct {
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	GID string `json:"gid"`
}

func peers(dests []dest) []peer {
	var out []peer
	for _, d := range dests {
		out = append(out, peer{uint32(d.QPN), uint32(d.PSN), tool.GIDText(d.GID.Addr())})
	}
	return out
}

func (s *session) report(elapsed time.Duration) error {
	o := s.o
	usec := float64(elapsed) / 1000
	r := result{
		Test: o.Kind.Name(), Role: "server", Local: peers(s.mine), Remote: peers(s.peer), Size: o.Size, Iters: o.Iters,
		Bytes: int64(o.Size) * int64(o.Iters) * 2, Seconds: elapsed.Seconds(), UsecIter: usec / float64(o.Iters),
	}
	r.Mbit = float64(r.Bytes) * 8 / usec
	if o.Host != "" {
		r.Role = "client"
	}
	if o.JSON {
		return tool.WriteJSON(s.env.Stdout, r)
	}
	fmt.Fprintf(s.env.Stdout, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", r.Bytes, r.Seconds, r.Mbit)
	fmt.Fprintf(s.env.Stdout, "%d iters in %.2f seconds = %.2f usec/iter\n", r.Iters, r.Seconds, r.UsecIter)
	return nil
}
