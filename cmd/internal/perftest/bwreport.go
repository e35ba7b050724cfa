package perftest

import (
	"encoding/binary"
	"fmt"
	"math"
)

// bwReport is the outcome of a bandwidth test as the two sides exchange it.
type bwReport struct {
	Size    uint64 // bytes
	Iters   uint64 // messages, of all QPs
	Peak    float64
	Average float64 // MiB/s or, with --report_gbits, Gbit/s
	Rate    float64 // million messages a second
}

// reportFields is how many messages of 8 bytes a report takes.
const reportFields = 5

func (r *bwReport) words() [reportFields]uint64 {
	return [reportFields]uint64{r.Size, r.Iters, math.Float64bits(r.Peak), math.Float64bits(r.Average),
		math.Float64bits(r.Rate)}
}

// swapReport exchanges reports field by field.
func (x *exchange) swapReport(mine bwReport) (bwReport, error) {
	var theirs [reportFields]uint64
	for i, w := range mine.words() {
		var out, in [8]byte
		binary.BigEndian.PutUint64(out[:], w)
		if err := x.conn.Swap("bandwidth report", out[:], in[:]); err != nil {
			return bwReport{}, err
		}
		theirs[i] = binary.BigEndian.Uint64(in[:])
	}
	return parseReport(theirs)
}

func parseReport(w [reportFields]uint64) (bwReport, error) {
	r := bwReport{Size: w[0], Iters: w[1], Peak: math.Float64frombits(w[2]),
		Average: math.Float64frombits(w[3]), Rate: math.Float64frombits(w[4])}
	for _, f := range []float64{r.Peak, r.Average, r.Rate} {
		// A peer that measured no time at all reports infinity or NaN.
		if f < 0 {
			return r, fmt.Errorf("the peer's report has a negative figure: %+v", r)
		}
	}
	return r, nil
}

// plus adds the two directions of a bidirectional test.
func (r bwReport) plus(other bwReport) bwReport {
	r.Peak += other.Peak
	r.Average += other.Average
	r.Rate += other.Rate
	return r
}
