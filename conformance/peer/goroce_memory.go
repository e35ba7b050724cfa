package peer

import (
	"fmt"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

type goroceMR struct {
	region
	dev  *verbs.Device
	mr   *verbs.MR
	b    []byte
	gone bool
}

func (s *goroceSession) MR(n int, access Access) (MR, error) {
	b := make([]byte, n)
	mr, err := s.pd.RegisterMR(b, roce.Access(access), nil)
	if err != nil {
		return nil, err
	}
	m := &goroceMR{region: region{mr.Addr(), n, uint32(mr.LKey()), uint32(mr.RKey())}, dev: s.p.dev, mr: mr, b: b}
	s.mrs = append(s.mrs, m)
	return m, nil
}

func (m *goroceMR) span(off, n int) ([]byte, error) {
	m.fence()
	if off < 0 || n < 0 || off > len(m.b) || n > len(m.b)-off {
		return nil, fmt.Errorf("peer: %d bytes at %d in a region of %d", n, off, len(m.b))
	}
	return m.b[off : off+n], nil
}

// fence orders accesses of this goroutine with those of the device. A peer's one-sided
// operation ends without a completion here: that it has ended is known from the other
// machine, which is no event in Go's memory model. Taking the device's lock is.
func (m *goroceMR) fence() { m.dev.Counters() }

func (m *goroceMR) Fill(off, n int, seed uint64, base int) error {
	defer m.fence()
	b, err := m.span(off, n)
	if err == nil {
		FillPattern(b, seed, base)
	}
	return err
}

func (m *goroceMR) Check(off, n int, seed uint64, base int) (int, error) {
	defer m.fence() // before what the device writes next
	b, err := m.span(off, n)
	if err != nil {
		return 0, err
	}
	return CheckPattern(b, seed, base), nil
}

func (m *goroceMR) Write(off int, b []byte) error {
	defer m.fence()
	dst, err := m.span(off, len(b))
	CopyMemory(dst, b)
	return err
}

func (m *goroceMR) Read(off, n int) ([]byte, error) {
	defer m.fence() // before what the device writes next
	b, err := m.span(off, n)
	if err != nil {
		return nil, err
	}
	got := make([]byte, n)
	CopyMemory(got, b)
	return got, nil
}

func (m *goroceMR) Dereg() error {
	if m.gone {
		return nil
	}
	m.gone = true
	return m.mr.Close()
}

func (q *goroceQP) BindWindow(mr MR, off, n int, access Access) (uint32, error) {
	mw, err := q.s.pd.AllocMW(verbs.WindowType2B)
	if err != nil {
		return 0, err
	}
	q.windows = append(q.windows, mw)
	key, err := q.qp.BindMW(0, mw, mr.(*goroceMR).mr, off, n, roce.Access(access), verbs.SendSignaled)
	if err != nil {
		return 0, err
	}
	return uint32(key), bound(q)
}
