package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// outcomes returns a program that fails with each of the details and then passes, and
// how often it ran.
func outcomes(details ...string) (run func() (string, Result), ran *int) {
	ran = new(int)
	return func() (string, Result) {
		*ran++
		if *ran <= len(details) {
			return details[*ran-1], Fail
		}
		return "fine", Pass
	}, ran
}

func TestTryProgram(t *testing.T) {
	const exceeded = "client: exit status 1\nFailed status transport retry counter exceeded (12) for wr_id 2\n"
	for name, c := range map[string]struct {
		tries   int
		details []string
		ran     int
		res     Result
		retried string
	}{
		"passes":                            {1, nil, 1, Pass, ""},
		"a failure counts":                  {1, []string{"wrong byte"}, 1, Fail, ""},
		"retries ran out":                   {1, []string{exceeded}, 2, Pass, "try 1: Failed status transport retry counter exceeded (12) for wr_id 2"},
		"retries ran out, then it is wrong": {1, []string{exceeded, "wrong byte"}, 2, Fail, "try 1: Failed status transport retry counter exceeded (12) for wr_id 2"},
		"retries run out each time":         {1, []string{exceeded, exceeded, exceeded}, 3, Fail, "try 1: Failed status transport retry counter exceeded (12) for wr_id 2; try 2: Failed status transport retry counter exceeded (12) for wr_id 2"},
		"datagrams get lost":                {5, []string{"client: killed", "client: killed"}, 3, Pass, "try 1: client: killed; try 2: client: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			run, ran := outcomes(c.details...)
			var row Row
			tryProgram(&row, c.tries, run)
			require.Equal(t, c.ran, *ran)
			require.Equal(t, c.res, row.Result)
			require.Equal(t, c.retried, row.Retried)
		})
	}
}
