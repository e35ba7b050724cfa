package captures

import (
	"context"
	"errors"

	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// Pairs are who asks whom, so that each kernel and goroce are on either side. Index -1 is goroce,
// others are of the guests.
var Pairs = [][2]int{{0, 1}, {1, -1}, {-1, 0}, {-1, -1}}

// side is one end of a stage.
type side struct {
	rxe  *hosts.RXE
	at   *lab.Host
	host matrix.Host
}

// NewStage sets a stage between two of the guests, or goroce (-1). bin is the roce program.
func NewStage(l *lab.Lab, guests []*hosts.RXE, pair [2]int, bin string) (*Stage, error) {
	s := &Stage{Wire: l.Wire}
	var sides [2]side
	for i, n := range pair {
		if n >= 0 {
			g := guests[n]
			sides[i] = side{rxe: g, host: hosts.Guest{P: g}}
			s.Names[i], s.Addrs[i], s.Ports[i] = g.Name(), g.Addr(peer.V4), g.PortName()
			continue
		}
		at, err := l.AddHost()
		if err != nil {
			return nil, err
		}
		sides[i] = side{at: at, host: hosts.Local{Lab: l, At: at, Bin: bin, Link: peer.DefaultLink}}
		s.Names[i], s.Addrs[i], s.Ports[i] = "goroce", at.Addr4, at.Name
	}
	s.Hosts = [2]matrix.Host{sides[0].host, sides[1].host}
	s.Open = func(sc *Scene) (peers [2]peer.Peer, done func(), err error) {
		var opened []*peer.Goroce
		done = func() {
			for _, d := range opened {
				_ = d.Close()
			}
		}
		for i, x := range sides {
			if x.rxe != nil {
				peers[i] = x.rxe
				continue
			}
			var d *peer.Goroce
			err := x.at.Do(func() (err error) {
				d, err = peer.NewGoroce(peer.GorocePlace{Addr4: x.at.Addr4, Addr6: x.at.Addr6,
					PortName: x.at.Name, RxeFlush: sides[1-i].rxe != nil, Tuning: sc.tuning()})
				return err
			})
			if err != nil {
				done()
				return peers, nil, err
			}
			opened = append(opened, d)
			peers[i] = d
		}
		return peers, done, nil
	}
	return s, nil
}

// Boot boots a guest of each suite, in their order.
func Boot(ctx context.Context, l *lab.Lab, suites []string) ([]*hosts.RXE, error) {
	peers := make([]*hosts.RXE, len(suites))
	errs := make(chan error, len(suites))
	for i, s := range suites {
		im, err := lab.OpenImage(s)
		if err != nil {
			return nil, err
		}
		go func() {
			g, err := l.Boot(ctx, lab.GuestConfig{Name: im.Suite, Image: im})
			if err == nil {
				peers[i], err = hosts.NewRXE(ctx, g)
			}
			errs <- err
		}()
	}
	var err error
	for range suites {
		err = errors.Join(err, <-errs)
	}
	return peers, err
}

// Between says who asks whom.
func (s *Stage) Between() string { return s.Names[0] + " to " + s.Names[1] }
