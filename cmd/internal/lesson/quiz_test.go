package lesson

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// played is a run of an exercise with these numbers.
func played(t *testing.T, l *lesson, args ...string) *run {
	t.Helper()
	v, err := l.values(args)
	require.NoError(t, err)
	r, err := l.perform(v)
	require.NoError(t, err, "%s %v", l.name, args)
	return r
}

// right says which values of a number reach the goal of an exercise.
func right(t *testing.T, name, number string, from, to int, others ...string) (values []int) {
	t.Helper()
	l := find(name)
	for n := from; n <= to; n++ {
		r := played(t, l, append(others, fmt.Sprintf("%s=%d", number, n))...)
		why, err := l.goal(r)
		if err == nil {
			require.NotEmpty(t, why)
			values = append(values, n)
		}
	}
	return values
}

// Each capture has one right answer, for every seed. It follows from the run, and the analyser, who
// knows nothing but the capture, finds the same and nothing of the wrong ones.
func TestQuiz(t *testing.T) {
	for seed := 1; seed <= seeds.Fewer(12); seed++ {
		seen := map[int]bool{}
		for n, l := range quiz() {
			d := drawn(seed, n)
			seen[d.scene] = true
			s := fmt.Sprintf("seed=%d", seed)
			r := played(t, &l, s)
			f, err := r.facts()
			require.NoError(t, err)
			for c := range claims {
				require.Equal(t, c == d.scene, claims[c].is(f), "%s %s: %s", l.name, s, claims[c].text)
			}
			require.Len(t, d.choices, 4)
			_, report, err := r.ladder()
			require.NoError(t, err)
			found := false
			for _, x := range report.Findings {
				for c := range claims {
					if is := slices.Contains(claims[c].kind, x.Kind); is && c != d.scene && x.Certain {
						t.Errorf("%s %s: the analyser is certain of %s", l.name, s, x.Kind)
					}
				}
				found = found || slices.ContainsFunc(claims[d.scene].kind, x.Has)
			}
			require.True(t, found, "%s %s: the capture does not show it to the analyser: %s", l.name, s,
				claims[d.scene].text)
			at := slices.Index(d.choices, d.scene) + 1
			require.Equal(t, []int{at}, right(t, l.name, "answer", 0, 4, s))
		}
		require.Len(t, seen, int(numClaims), "each seed has all")
	}
}

// What was wrong is told only when the answer is right.
func TestQuizKeepsItsSecret(t *testing.T) {
	n := slices.IndexFunc(quiz(), func(l lesson) bool { return claims[claimRequest].is(factsOf(t, played(t, &l))) })
	name := quiz()[n].name
	d := drawn(1, n)
	at := slices.Index(d.choices, claimRequest) + 1
	got, err := taught(t, name, fmt.Sprintf("answer=%d", at%4+1))
	require.NoError(t, err)
	require.Contains(t, got, "Not yet: ")
	require.NotContains(t, got, "lost-request")
	require.NotContains(t, got, "(again")
	got, err = taught(t, name, fmt.Sprintf("answer=%d", at))
	require.NoError(t, err)
	require.Contains(t, got, "Right: ")
	require.Contains(t, got, "lost-request")
}

func factsOf(t *testing.T, r *run) *facts {
	t.Helper()
	f, err := r.facts()
	require.NoError(t, err)
	return f
}

// The exercises can be done, not by chance, and what is right follows from the run: with another
// network the answer is another.
func TestExercises(t *testing.T) {
	require.Equal(t, []int{7}, right(t, "survive", "retries", 0, 7, "timeout=15"))
	require.Empty(t, right(t, "survive", "retries", 0, 7, "timeout=14"))
	require.Empty(t, right(t, "survive", "retries", 0, 7, "timeout=16"))
	require.Equal(t, []int{8}, right(t, "enough", "recvs", 1, 16))
	require.Equal(t, []int{4}, right(t, "path", "mtu", 1, 5))
	require.Equal(t, []int{3}, right(t, "fenced", "fence", 0, 4))

	// What is missing is what the fault took away, and the packets of the capture tell the same:
	// the one that does not come in its turn.
	for seed := 1; seed <= seeds.Fewer(14); seed++ {
		s := fmt.Sprintf("seed=%d", seed)
		r := played(t, find("missing"), s)
		rungs, _, err := r.ladder()
		require.NoError(t, err)
		missing := ib.PSN(1000)
		for _, g := range rungs {
			var how string
			var psn ib.PSN
			if _, err := fmt.Sscanf(g.what, "WRITE %s %d", &how, &psn); err != nil || psn != missing {
				if err == nil {
					break
				}
				continue
			}
			missing = missing.Next()
		}
		require.Equal(t, []int{int(missing)}, right(t, "missing", "psn", 1000, 1020, s), s)
	}
	l := find("missing")
	for args, want := range map[string]string{"psn=5": "A sent no packet with PSN 5",
		"psn=1003": "PSN 1003 arrived: packet 7", "psn=0": "psn=1003"} {
		_, err := l.goal(played(t, l, args))
		require.ErrorContains(t, err, want)
	}
}

// Every number of an exercise counts, as in a lesson.
func TestExerciseNumbersCount(t *testing.T) {
	for _, l := range exercises() {
		usual, err := seen(t, &l)
		require.NoError(t, err)
		verdicts := ""
		for _, try := range l.tries {
			got, err := taught(t, append([]string{l.name}, strings.Fields(try)...)...)
			require.NoError(t, err, "%s %s", l.name, try)
			require.NotEqual(t, usual, got)
			verdicts += regexp.MustCompile("Right: |Not yet: ").FindString(got)
		}
		require.Regexp(t, "^(Not yet: )*Right: (Not yet: )*$", verdicts, "of what the site offers one is right")
		require.NotEqual(t, "Right: ", verdicts)
		for _, before := range l.after {
			require.NotNil(t, find(before), l.name)
		}
	}
	require.Equal(t, verbs.WCSuccess, played(t, find("survive"), "timeout=15", "retries=7").wcs[0].Status)
}
