package doctor

import (
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
)

// iptablesHooks are the chains that packets pass by themselves.
var iptablesHooks = map[string]bool{"INPUT": true, "PREROUTING": true, "OUTPUT": true, "POSTROUTING": true,
	"FORWARD": true}

// iptablesChains reads what iptables-save prints. tool is the one that changes those rules.
func iptablesChains(tool string, text []byte) (all []*chain, err error) {
	family := "ip"
	if strings.HasPrefix(tool, "ip6") {
		family = "ip6"
	}
	table := ""
	byName := map[string]*chain{}
	lines := map[*chain][][]string{}
	for line := range strings.Lines(string(text)) {
		w := iptablesWords(line)
		switch {
		case len(w) == 0:
		case w[0][0] == '*':
			table = w[0][1:]
		case w[0][0] == ':' && len(w) >= 2:
			c := &chain{tool: tool, family: family, table: table, name: w[0][1:], drops: w[1] == "DROP"}
			if iptablesHooks[c.name] {
				c.hook = strings.ToLower(c.name)
			}
			c.rules = func(flow) []rule { return iptablesRules(lines[c]) }
			byName[c.key()] = c
			all = append(all, c)
		case w[0] == "-A" && len(w) >= 2:
			if c := byName[family+" "+table+" "+w[1]]; c != nil {
				lines[c] = append(lines[c], w[2:])
			}
		}
	}
	return all, nil
}

// iptablesWords splits a line; a comment in quotes is one word.
func iptablesWords(line string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		end := strings.IndexByte(line, ' ')
		if line[0] == '"' {
			if end = strings.IndexByte(line[1:], '"') + 2; end == 1 {
				end = -1
			}
		}
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, line[:end]), line[end:]
	}
	return words
}

// iptablesRules are the rules of a chain.
func iptablesRules(lines [][]string) (rules []rule) {
	for i, w := range lines {
		r := rule{number: i + 1, place: strconv.Itoa(i + 1)}
		if r.readIPTables(w) {
			rules = append(rules, r)
		}
	}
	return rules
}

// readIPTables takes the words of a rule behind its chain. It returns false if the rule is not
// about what matters here.
func (r *rule) readIPTables(w []string) bool {
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
			r.iptablesTarget(word, value, w[i+2:])
			return true
		case "-m": // its conditions follow
		case "-p":
			is(value == "udp" || value == "all" || value == "17", covers)
		case "--dport", "--dports", "--ports":
			is(listsPort(value), names)
		case "--ctstate", "--state":
			is(listsWord(value, "NEW"), covers)
		case "-i", "-o":
			if a = limits; value == "lo" && !not {
				a = onlyLo
			}
		case "--comment", "--reject-with", "--log-prefix":
		default:
			if strings.HasPrefix(word, "-") {
				a = limits
			} else {
				continue // a further word of what came before
			}
		}
		i++
		if !r.condition(a) {
			return false
		}
	}
	return true
}

// iptablesTarget takes the target of a rule, and its options.
func (r *rule) iptablesTarget(word, target string, options []string) {
	r.target = target
	switch target {
	case "ACCEPT":
		r.verdict = accept
	case "DROP", "REJECT":
		r.verdict = drop
	case "RETURN":
		r.verdict = back
	case "SNAT", "DNAT", "REDIRECT", "NETMAP":
		r.verdict = nat
	case "TOS", "DSCP", "ECN":
		r.verdict, r.field = change, "dscp"
		for i := range len(options) - 1 {
			if v, mask, ok := strings.Cut(options[i+1], "/"); options[i] == "--set-tos" && ok {
				value, _ := strconv.ParseUint(v, 0, 8)
				bits, _ := strconv.ParseUint(mask, 0, 8)
				if bits&3 != 0 {
					r.field, r.value = "ecn", strconv.FormatUint(value&3, 10)
				}
			}
		}
	case "NOTRACK":
		r.verdict = notrack
	case "CT":
		if listsWord(strings.Join(options, ","), "--notrack") {
			r.verdict = notrack
		}
	case "LOG", "NFLOG", "MARK", "CONNMARK", "CLASSIFY", "TRACE", "CHECKSUM", "MASQUERADE", "TEE", "SET",
		"NFQUEUE", "QUEUE", "TTL", "HL", "TPROXY", "SECMARK", "CONNSECMARK":
	default:
		if r.verdict = jump; word == "-g" {
			r.verdict = goTo
		}
	}
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
