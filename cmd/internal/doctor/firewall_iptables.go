package doctor

import (
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
)

// iptablesRules reads "iptables-save -t filter".
func iptablesRules(text []byte) (r portRules, err error) {
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		if len(w) >= 2 && w[0] == ":INPUT" && w[1] == "DROP" {
			r.closed = addChain(r.closed, "chain INPUT")
		}
		if len(w) < 4 || w[0] != "-A" || w[1] == "OUTPUT" || w[1] == "FORWARD" {
			continue
		}
		x := rule{chain: "chain " + w[1], base: w[1] == "INPUT"}
		if x.readIPTables(w[2:]) {
			r.add(x)
		}
	}
	return r, nil
}

// readIPTables takes the words of a rule behind its chain. It returns false if the rule is not about what
// matters here.
func (x *rule) readIPTables(w []string) bool {
	for i := 0; i < len(w); i++ {
		not := w[i] == "!"
		if not {
			i++
		}
		if i+1 >= len(w) {
			break
		}
		word, value := w[i], w[i+1]
		a := covers
		is := func(yes bool, as aspect) {
			if a = as; yes == not {
				a = misses
			} else if not {
				a = covers
			}
		}
		switch word {
		case "-j", "-g":
			switch value {
			case "ACCEPT":
				x.verdict = accept
			case "DROP", "REJECT":
				x.verdict = drop
			}
			return true // what follows are options of the target
		case "-m": // its conditions follow
		case "-p":
			is(value == "udp" || value == "all" || value == "17", covers)
		case "--dport", "--dports", "--ports":
			is(listsPort(value), names)
		case "--ctstate", "--state":
			is(listsWord(value, "NEW"), covers)
		case "--comment", "--reject-with", "--log-prefix":
		default:
			if strings.HasPrefix(word, "-") {
				a = limits
			} else {
				continue // a further word of what came before
			}
		}
		i++
		if !x.condition(a) {
			return false
		}
	}
	return true
}

func listsWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// listsPort looks for the port in "4791", "1,4791" or "4000:5000".
func listsPort(s string) bool {
	for _, part := range strings.Split(s, ",") {
		from, to, isRange := strings.Cut(part, ":")
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if !isRange {
			hi, err2 = lo, nil
		}
		if err1 == nil && err2 == nil && lo <= ib.UDPPort && ib.UDPPort <= hi {
			return true
		}
	}
	return false
}
