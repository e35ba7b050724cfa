package grammar

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var profileFlag = flag.String("grammar.profile", "",
	"coverage of transport by TestLong, to say why what is not covered is not")

// reasons say why statements of the engine do not run in TestLong. The first that matches "file
// function: text" has them.
var reasons = []struct {
	why string
	re  *regexp.Regexp
}{
	{"Memory of the process is gone. The kernel tells that, and no packet.", regexp.MustCompile(
		`^lost\.go \S+(TransmitFault|contain|faulted|handleContained|lose|readFaulted|payloadFaulted):|recover\(\)`)},
	{"They are texts and getters.", regexp.MustCompile(
		`^\S+ (\S+\.)?(String|Error|Unwrap|UserData|Told|Cap|Overflowed|NoRecv|Unreachable|Manage|attrName):`)},
	{"They refuse arguments, states and limits of calls. The program of a run makes no mistakes.", regexp.MustCompile(
		`(argError|opErr|errNilRequest|bad)\(|&(Engine|Arg)Error|return (nil, |0, )?err\b|^(srq|cq|ring|mcast)\.go \S+(Modify|Resize|ResizeRing|detach):|^qp_attr\.go|` +
			`^qp\.go \S+(allocQPN|retain):|^ah\.go|^share\.go \S+usableBy|^ring\.go .*return 0|unknown`)},
	{"They are for several engines and threads, for the end of a device, or cannot happen: a panic, a check of what was checked.", regexp.MustCompile(
		`^share\.go|cq\.on\.Load|purge|panic\(|Detach|^qp_error\.go \S+Fail|^qp\.go \S+eventRoom|^ready\.go \S+OnlyAcks|^events\.go|^list\.go|^delay\.go \S+roundTrip`)},
	{"A region is taken away under a request. A run takes none away that it uses itself.", regexp.MustCompile(
		`FaultNone|FaultState|FaultBounds|sq\.lost\(|sq\.payload\(|buildPayload\(|buildWaiting\(|remake\(|badBuffer|\.Valid\(\)|copyOut|^segment\.go .*(Seek|load)\(|Persist\(\)|mayRead\(\)|` +
			`^(send_unreliable\.go \S+sendUnreliable|missing_send\.go \S+sendAgain): if !ok|^requester\.go \S+sendRequests`)},
	{"A completion queue overflows. Those of a run have room for all.", regexp.MustCompile(
		`[oO]verflowed|EventCQError|badQueue|cq\.over\.|^requester\.go \S+retireOne`)},
}

const reachable = "Packets can reach them, and these did not."

// TestUncovered says why a long run leaves out what it does, as docs/security.md has it:
//
//	go test -coverpkg=./transport -coverprofile=/tmp/c ./conformance/grammar -run 'TestLong$' -args -grammar.packets 1500000 -grammar.life 50000
//	go test ./conformance/grammar -run TestUncovered -v -args -grammar.profile /tmp/c
//
// A profile of other tests behind it (tail -n +2 >>/tmp/c) leaves what neither covers.
func TestUncovered(t *testing.T) {
	if *profileFlag == "" {
		t.Skip("takes -grammar.profile")
	}
	f, err := os.Open(*profileFlag)
	require.NoError(t, err)
	defer f.Close()
	type block struct{ file, from, to string }
	ran, size := map[block]bool{}, map[block]int{}
	line := regexp.MustCompile(`^.*/goroce/transport/([^/]+):(\S+),(\S+) (\d+) (\d+)$`)
	for s := bufio.NewScanner(f); s.Scan(); {
		if m := line.FindStringSubmatch(s.Text()); m != nil {
			b := block{m[1], m[2], m[3]}
			n, err := strconv.Atoi(m[4])
			require.NoError(t, err)
			size[b], ran[b] = n, ran[b] || m[5] != "0"
		}
	}
	src := map[string]*source{}
	sum, left, all := map[string]int{}, map[string]int{}, 0
	for b, n := range size {
		if all += n; ran[b] || n == 0 {
			continue
		}
		if src[b.file] == nil {
			src[b.file] = readSource(t, path.Join("../../transport", b.file))
		}
		name, text := src[b.file].at(t, b.from, b.to)
		why := reachable
		for _, r := range reasons {
			if r.re.MatchString(b.file + " " + name + ": " + text) {
				why = r.why
				break
			}
		}
		if sum[why] += n; why == reachable {
			left[b.file] += n
			t.Logf("%s:%s %s (%d): %s", b.file, b.from, name, n, text)
		}
	}
	covered := all
	for _, why := range slices.Sorted(maps.Keys(sum)) {
		covered -= sum[why]
		t.Logf("| %d | %s |", sum[why], why)
	}
	t.Logf("%.1f %% of %d statements, %.1f %% of those that packets can reach",
		100*float64(covered)/float64(all), all, 100*float64(covered)/float64(covered+sum[reachable]))
	for _, name := range slices.SortedFunc(maps.Keys(left),
		func(a, b string) int { return cmp.Compare(left[b], left[a]) }) {
		t.Logf("%d in %s", left[name], name)
	}
	for _, r := range reasons {
		require.NotZero(t, sum[r.why], "nothing is left out for that reason any more: %s", r.why)
	}
}

// source is a file of the engine.
type source struct {
	text []byte
	file *token.File
	tree *ast.File
}

func readSource(t *testing.T, name string) *source {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	return &source{text, set.File(tree.Pos()), tree}
}

// at returns the function that a block is in, and the text of the block in a line, from the
// beginning of its first line.
func (s *source) at(t *testing.T, from, to string) (name, text string) {
	var l1, l2, c2 int
	_, err := fmt.Sscanf(from, "%d.", &l1)
	require.NoError(t, err)
	_, err = fmt.Sscanf(to, "%d.%d", &l2, &c2)
	require.NoError(t, err)
	begin, end := s.file.LineStart(l1), s.file.LineStart(l2)+token.Pos(c2-1)
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Pos() <= end && begin <= f.End() {
			name = f.Name.Name
			if f.Recv != nil {
				name = strings.TrimPrefix(string(s.text[s.file.Offset(
					f.Recv.List[0].Type.Pos()):s.file.Offset(f.Recv.List[0].Type.End())]), "*") + "." + name
			}
			break
		}
	}
	return name, strings.Join(strings.Fields(string(s.text[s.file.Offset(begin):s.file.Offset(end)])), " ")
}
