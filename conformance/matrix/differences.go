package matrix

import "fmt"

// Differences says which rows of one run another one lacks, or has with another result. What the
// second run has beyond that is no difference.
func Differences(then, now []Row) (out []string) {
	got := map[string]Result{}
	for _, row := range now {
		got[row.Label()] = row.Result
	}
	for _, row := range then {
		switch r, ok := got[row.Label()]; {
		case !ok:
			out = append(out, row.Label()+": missing")
		case r != row.Result:
			out = append(out, fmt.Sprintf("%s: %s, and %s before", row.Label(), r, row.Result))
		}
	}
	return out
}
