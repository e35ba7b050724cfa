package drill

import "strings"

// Limits of a script.
const (
	maxScriptBytes = 1 << 16
	maxSteps       = 1 << 14 // with loops unrolled
	maxNesting     = 4
)

// word is a piece of a line between spaces.
type word struct {
	at   place
	text string
}

// words splits a line. A "#" at the start of a word begins a comment.
func words(file string, line int, text string) (list []word) {
	for i := 0; i < len(text); {
		if text[i] == ' ' || text[i] == '\t' || text[i] == '\r' {
			i++
			continue
		}
		if text[i] == '#' {
			break
		}
		j := i
		for j < len(text) && text[j] != ' ' && text[j] != '\t' && text[j] != '\r' {
			j++
		}
		list = append(list, word{place{file, line, i + 1}, text[i:j]})
		i = j
	}
	return list
}

// value returns the part of a word behind "key=", and its place.
func (w word) value(key string) word {
	return word{place{w.at.file, w.at.line, w.at.col + len(key) + 1}, w.text[len(key)+1:]}
}

// isOpWord reports whether a word belongs to the name of an operation or a status: capitals,
// digits and underscores, with a capital first; "|" stands between alternatives.
func (w word) isOpWord() bool {
	if w.text == "" || w.text[0] < 'A' || w.text[0] > 'Z' {
		return false
	}
	return strings.Trim(w.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_|") == ""
}

// isName reports whether s can name an object or a variable: a small letter, then small letters,
// digits and underscores.
func isName(s string) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' || len(s) > 32 {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
