package perftest

import (
	"fmt"
	"os"

	"github.com/goroce/goroce/cmd/internal/tool"
)

// jsonBW is a row of a bandwidth test.
type jsonBW struct {
	Size    uint64  `json:"size"`
	Iters   uint64  `json:"iterations"`
	Peak    float64 `json:"bw_peak"`
	Average float64 `json:"bw_average"`
	Rate    float64 `json:"msg_rate"`
}

func (r bwReport) json() jsonBW { return jsonBW(r) }

// jsonReport is what --json prints: the test and its rows.
type jsonReport struct {
	Test          string `json:"test"`
	Role          string `json:"role"` // "client" or "server"
	Device        string `json:"device"`
	LocalGID      string `json:"local_gid"`
	RemoteGID     string `json:"remote_gid"`
	PeerVersion   string `json:"peer_version,omitempty"`
	Transport     string `json:"transport"`
	AtomicType    string `json:"atomic_type,omitempty"`
	MTU           int    `json:"mtu"` // bytes
	QPs           int    `json:"qps"`
	TxDepth       int    `json:"tx_depth"`
	CQMod         int    `json:"cq_mod"`
	Bidirectional bool   `json:"bidirectional"`
	Duration      int    `json:"duration,omitempty"` // seconds
	BWUnit        string `json:"bw_unit,omitempty"`  // of bw_peak and bw_average
	RateUnit      string `json:"rate_unit,omitempty"`
	TimeUnit      string `json:"time_unit,omitempty"`
	Results       []any  `json:"results"`
}

// report describes the session; rows are added as they come.
func (s *session) report() jsonReport {
	o := s.o
	r := jsonReport{
		Test: o.Test.Name(), Role: "server", Device: s.place.Name(),
		LocalGID: s.x.mine[0].GID.Addr().String(), RemoteGID: s.x.peer[0].GID.Addr().String(),
		PeerVersion: s.x.version, Transport: o.Transport.String(), MTU: s.x.mtu.Bytes(),
		QPs: o.QPs, TxDepth: o.TxDepth, CQMod: o.CQMod, Bidirectional: o.Bidirectional,
		Duration: o.Duration, Results: s.rows,
	}
	if o.Host != "" {
		r.Role = "client"
	}
	if o.Test.Verb == Atomic {
		r.AtomicType = o.AtomicType
	}
	if o.Test.Latency {
		r.TimeUnit = "us"
	} else {
		r.RateUnit = "million messages/s"
		if r.BWUnit = "MiB/s"; o.ReportGbits {
			r.BWUnit = "Gbit/s"
		}
	}
	if r.Results == nil {
		r.Results = []any{}
	}
	return r
}

// writeJSON does what --json and --out_json ask for.
func (s *session) writeJSON() error {
	if s.o.JSON {
		if err := tool.WriteJSON(s.env.Stdout, s.report()); err != nil {
			return err
		}
	}
	if !s.o.OutJSON {
		return nil
	}
	f, err := os.Create(s.o.OutJSONFile)
	if err != nil {
		return fmt.Errorf("--out_json: %w", err)
	}
	if err := tool.WriteJSON(f, s.report()); err != nil {
		f.Close()
		return fmt.Errorf("--out_json: %w", err)
	}
	return f.Close()
}
