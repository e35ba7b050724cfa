package captures

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/goroce/goroce/conformance/lab/ether"
)

// Views of a Record, and of a scene.
const (
	AtRequester = iota
	AtResponder
)

// viewNames are the ends of a capture's file name.
var viewNames = [2]string{"requester", "responder"}

// Record is what the injector knows of a pair of captures.
type Record struct {
	Scene     string        `json:"scene"`
	Requester string        `json:"requester"` // "rxe 6.1", "rxe 6.12" or "goroce"
	Responder string        `json:"responder"`
	Addrs     [2]netip.Addr `json:"addrs"`
	// What was done, and to which packets.
	Fault    string     `json:"fault"`
	Injected []Injected `json:"injected,omitempty"`
	// Want is the kinds of findings that each end has to give.
	Want [2][]string `json:"want"`
}

// Injected is a packet that something happened to.
type Injected struct {
	What   string `json:"what"` // as ether.Kind; "observe": the packet itself is the mistake
	Opcode uint8  `json:"opcode"`
	QPN    uint32 `json:"qpn"` // that it goes to
	PSN    uint32 `json:"psn"`
	Sender int    `json:"sender"`
	// At is where each capture has it.
	At [2]Place `json:"at"`
}

// Place is where a packet is in a capture.
type Place struct {
	Frames []int `json:"frames,omitempty"` // that hold it
	// The next frame to the same queue pair, and its PSN, if no frame holds the packet; where it
	// was sent, if another overtook it: that one.
	Next    int    `json:"next,omitempty"`
	NextPSN uint32 `json:"next_psn,omitempty"`
	// The request that it answers, or would have.
	Asked int `json:"asked,omitempty"`
	// Where it, or the message of RDMA-CM that it answers, is seen once more; of a request that the
	// network doubled: where the answer is.
	Again int `json:"again,omitempty"`
}

// sees reports whether anything that comes by at a view tells of what happened to a packet. The
// last packet of what is sent is missed by nobody who has not seen the rest of a message; and who
// is not asked again does not know that the answer was lost.
func (x *Injected) sees(view int, cm uint16) bool {
	at := x.At[view]
	switch {
	case x.What == ether.Duplicate.String():
		return view != x.Sender || at.Again != 0
	case x.What != ether.Drop.String():
		return true
	case cm == ether.CMREQ || cm == ether.CMDREQ:
		return view == x.Sender
	case cm == ether.CMRTU || cm == ether.CMDREP:
		return view != x.Sender || at.Again != 0
	case cm != 0:
		return at.Again != 0
	case view == x.Sender || ether.IsResponse(x.Opcode):
		return true
	}
	return at.Next != 0 && at.NextPSN != x.PSN
}

// name is what the files of a record begin with.
func (r *Record) name() string {
	return fmt.Sprintf("%s/%s-to-%s", fileName(r.Scene), fileName(r.Requester), fileName(r.Responder))
}

func fileName(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c == ' ' || c == '/' {
			b[i] = '-'
		}
	}
	return string(b)
}

// injected makes the public form of what rules did, of those that are told of, and says at which
// view it can be known.
func injected(v *ether.Views, told func(*ether.Rule) bool) (all []Injected, seen [2]bool) {
	shots := [2][]ether.Shot{v.Shots(0), v.Shots(1)}
	for _, a := range v.Acts() {
		if !told(a.Rule) {
			continue
		}
		x := Injected{What: a.Rule.Kind.String(), Opcode: a.Pkt.Opcode, QPN: a.Pkt.QPN, PSN: a.Pkt.PSN,
			Sender: a.Sender}
		for i := range x.At {
			x.At[i] = Place{Frames: a.Frames[i], Next: a.Next[i], NextPSN: a.NextPSN[i],
				Asked: asked(shots[i][:a.Before[i]], a.Pkt)}
			x.At[i].Again = again(shots[i], a, i)
		}
		cm, _, _ := a.Pkt.CM()
		for i := range seen {
			seen[i] = seen[i] || x.sees(i, cm)
		}
		all = append(all, x)
	}
	return all, seen
}

// again returns the number of the frame where a message of RDMA-CM, or what it answers, comes
// again; of a request that was doubled, where it is answered for the second time.
func again(shots []ether.Shot, a *ether.Act, view int) int {
	_, tid, cm := a.Pkt.CM()
	attr, _, _ := a.Pkt.CM()
	answers := 0
	for i, s := range shots {
		p, ok := ether.Decode(s.Frame)
		if !ok {
			continue
		}
		got, t, isCM := p.CM()
		switch {
		case cm && isCM && t == tid && i >= a.Before[view]+len(a.Frames[view]) &&
			(got == attr && len(a.Frames[view]) > 0 || got == asks[attr]):
			return i + 1
		case !cm && a.Rule.Kind == ether.Duplicate && ether.IsResponse(p.Opcode) && p.Src == a.Pkt.Dst &&
			p.PSN == a.Pkt.PSN:
			if answers++; answers == 2 {
				return i + 1
			}
		}
	}
	return 0
}

// asks are the messages that others answer.
var asks = map[uint16]uint16{ether.CMREP: ether.CMREQ, ether.CMREJ: ether.CMREQ, ether.CMRTU: ether.CMREP,
	ether.CMDREP: ether.CMDREQ}

// asked returns the number of the last frame that a packet answers, 0 if it is no answer.
func asked(before []ether.Shot, answer *ether.Packet) int {
	_, tid, cm := answer.CM()
	if !cm && !ether.IsResponse(answer.Opcode) {
		return 0
	}
	for i, s := range slices.Backward(before) {
		p, ok := ether.Decode(s.Frame)
		if !ok || p.Src != answer.Dst {
			continue
		}
		_, t, isCM := p.CM()
		switch d := (answer.PSN - p.PSN) & 0xffffff; {
		case cm != isCM || cm && t != tid:
		case cm, d == 0, p.Opcode == ether.OpReadRequest && d < 1<<16:
			return i + 1
		}
	}
	return 0
}

// Save writes the record and its captures below dir, into the folder of the scene.
func (r *Record) Save(dir string, v *ether.Views) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, r.name())), 0o755); err != nil {
		return err
	}
	for i := range viewNames {
		f, err := os.Create(r.Capture(dir, i))
		if err != nil {
			return err
		}
		if err := v.WritePcapng(f, i); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.name()+".json"), append(b, '\n'), 0o644)
}

// load reads the records of all scenes below dir.
func load(dir string) (all []*Record, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		r := new(Record)
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// Capture is the path of one of the record's captures.
func (r *Record) Capture(dir string, view int) string {
	return filepath.Join(dir, r.name()+"."+viewNames[view]+".pcapng")
}
