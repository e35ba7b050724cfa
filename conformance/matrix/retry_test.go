package matrix

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/ether"
)

// outcomes returns a program that ends in each of the ways and then passes, and how often it ran.
func outcomes(list ...outcome) (run func() outcome, ran *int) {
	ran = new(int)
	return func() outcome {
		*ran++
		if *ran <= len(list) {
			return list[*ran-1]
		}
		return outcome{detail: "fine", result: Pass}
	}, ran
}

func TestTryProgram(t *testing.T) {
	starved := outcome{detail: "the guest stood still\nclient: exit status 1", result: Fail, starved: true}
	wrong := outcome{detail: "wrong byte", result: Fail}
	const once = "attempt 1 of 3: the guest stood still"
	for name, c := range map[string]struct {
		tries   int
		list    []outcome
		ran     int
		res     Result
		retried string
		starved int
	}{
		"passes":                    {1, nil, 1, Pass, "", 0},
		"a failure counts":          {1, []outcome{wrong}, 1, Fail, "", 0},
		"the guest was starved":     {1, []outcome{starved}, 2, Pass, once, 1},
		"starved, then it is wrong": {1, []outcome{starved, wrong}, 2, Fail, once, 1},
		"wrong, then the guest was starved": {5, []outcome{wrong, starved, starved, starved, starved}, 5,
			Fail, "attempt 1 of 5: wrong byte; attempt 2 of 5: the guest stood still; attempt 3 of 5: the guest stood still; attempt 4 of 5: the guest stood still", 4},
		"starved each time": {1, []outcome{starved, starved, starved, starved}, 3,
			Inconclusive, once + "; attempt 2 of 3: the guest stood still", 3},
		"datagrams get lost": {5, []outcome{wrong, wrong}, 3, Pass,
			"attempt 1 of 5: wrong byte; attempt 2 of 5: wrong byte", 0},
		"retries ran out, nobody starved": {1, []outcome{{detail: "x", result: Fail, gaveUp: addrs[:1]}},
			1, Fail, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			run, ran := outcomes(c.list...)
			var row Row
			tryProgram(&row, c.tries, func() bool { return true }, run)
			require.Equal(t, c.ran, *ran)
			require.Equal(t, c.res, row.Result)
			require.Equal(t, c.retried, row.Retried)
			require.Equal(t, c.starved, row.Starved)
		})
	}
}

// Without time for another attempt a row is inconclusive after one.
func TestTryProgramWithoutTime(t *testing.T) {
	run, ran := outcomes(outcome{result: Fail, starved: true})
	var row Row
	tryProgram(&row, 1, func() bool { return false }, run)
	require.Equal(t, Inconclusive, row.Result)
	require.Equal(t, 1, *ran)
	var r Report
	require.True(t, r.Again(againTime/2))
	require.True(t, r.Again(againTime/2))
	require.False(t, r.Again(1))
}

func TestWhileStarved(t *testing.T) {
	wrong := errors.New("wrong byte")
	starved := starvedError{errors.New("RETRY_EXC_ERR"), "the guest stood still"}
	for name, c := range map[string]struct {
		errs    []error
		want    error
		starved int
	}{
		"passes":            {[]error{nil}, nil, 0},
		"a failure counts":  {[]error{wrong, nil}, wrong, 0},
		"starved":           {[]error{starved, nil}, nil, 1},
		"starved, wrong":    {[]error{starved, wrong}, wrong, 1},
		"starved each time": {[]error{starved, starved, starved, nil}, starved, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var row Row
			ran := 0
			err := row.whileStarved(func() error { ran++; return c.errs[ran-1] })
			require.Equal(t, c.want, err)
			require.Equal(t, c.starved, row.Starved)
			require.Equal(t, c.starved > 0, row.Retried != "")
		})
	}
}

func TestTooBusy(t *testing.T) {
	var r Report
	for i := range maxStarved {
		at := time.Duration(i) * time.Minute
		for _, link := range []string{"udp", "xdp"} {
			r.Starvation("6.12", link, at)
			r.Starvation("6.1", link, at)
			r.Starvation("6.12", link, at+oneStall) // another lane, the same stall
		}
	}
	require.Empty(t, r.TooBusy())
	r.Starvation("6.12", "udp", 2*oneStall)
	require.Len(t, r.TooBusy(), 1)
	require.Contains(t, r.TooBusy()[0], "6.12, udp link: the guest stood still 21 times")
}

// A few rows may be inconclusive.
func TestTooManyInconclusive(t *testing.T) {
	var r Report
	for range maxInconclusive {
		r.Add(Row{Result: Inconclusive, Starved: starvedTries})
	}
	require.Empty(t, r.TooBusy())
	r.Add(Row{Result: Inconclusive, Starved: starvedTries})
	require.Len(t, r.TooBusy(), 1)
	require.Contains(t, r.TooBusy()[0], "6 rows are inconclusive")
}

// A program that says what is wanted and sends nothing has not passed.
func TestProgramsMustSend(t *testing.T) {
	sw := ether.New()
	defer sw.Close()
	e := &Env{Wire: sw}
	run := func() outcome { return outcome{detail: "fine", result: Pass} }
	var row Row
	e.tryProgram(&row, 1, [2]netip.Addr(addrs), 0, run)
	require.Equal(t, Pass, row.Result)
	e.tryProgram(&row, 1, [2]netip.Addr(addrs), 1, run)
	require.Equal(t, Fail, row.Result)
	require.Contains(t, row.Detail, "0 bytes went over the wire")
}
