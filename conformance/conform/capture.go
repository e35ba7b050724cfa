package conform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/analyse"
)

// capture returns what runs the group of that name: each operation once, with all packets in a
// file, which is held against tshark where that is installed, and against this module's analyser.
func (o *Options) capture(env *matrix.Env) func(context.Context, string) error {
	return func(ctx context.Context, group string) error {
		dir := o.PcapDir
		if dir == "" {
			var err error
			if dir, err = os.MkdirTemp("", "roce-conform-"); err != nil {
				return err
			}
			defer os.RemoveAll(dir)
		} else if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		path := filepath.Join(dir, "capture.pcap")
		if err := env.Capture(ctx, path); err != nil {
			return err
		}
		row := matrix.Row{Kernel: env.Kernel, Group: group, Op: "roce explain", Role: "requester",
			Link: env.Link, Authority: "of these checks: in a capture of what went well nothing is found"}
		if !o.wants(row) {
			return nil
		}
		row.Result = matrix.Pass
		var err error
		if row.Detail, err = quiet(path, env); err != nil {
			row.Result, row.Detail = matrix.Fail, err.Error()
		}
		env.Report.Add(row)
		return nil
	}
}

// quiet reads a capture with the analyser, which must take all of it for RoCE and find nothing
// wrong. What a busy machine makes late is not held against anybody.
func quiet(path string, env *matrix.Env) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	opt := analyse.Options{}
	for _, fam := range []peer.Family{peer.V4, peer.V6} {
		if a := env.Subject.Addr(fam); a.IsValid() {
			opt.Local = append(opt.Local, a)
		}
	}
	r, _, err := analyse.Read(f, opt)
	if err != nil {
		return "", err
	}
	var errs []error
	if r.Malformed > 0 {
		errs = append(errs, fmt.Errorf("%d packets are malformed", r.Malformed))
	}
	for _, x := range r.Findings {
		if !x.Certain {
			continue // a request was sent again before its answer came, which looks like a loss
		}
		switch x.Kind {
		case analyse.LateAck, analyse.SlowReceiver, analyse.LostAck, analyse.DuplicateRequest, analyse.DuplicateAck:
			continue // a requester that did not want to wait any longer
		}
		errs = append(errs, fmt.Errorf("%s in frame %d: %s", x.Kind, x.Frames[0], x.Text))
	}
	if r.Packets == 0 {
		errs = append(errs, errors.New("no packet was captured"))
	}
	return strings.TrimSpace(fmt.Sprintf("%d packets on %d connections", r.Packets, len(r.Connections))),
		errors.Join(errs...)
}
