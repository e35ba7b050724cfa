package tool

import (
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goroce/goroce/internal/unix"
)

// Screen says how text for a person can look where it goes. The zero value is the safest: no
// colour, ASCII, lines as long as they are.
type Screen struct {
	Width  int  // columns; 0: lines are not broken, as readers of a pipe or a file want it
	Height int  // rows; 0: not a terminal
	Colour bool // escape sequences are understood
	UTF8   bool // characters beyond ASCII are
}

// ScreenOf describes what f writes to. Colour needs a terminal that is not "dumb", and no NO_COLOR
// in the environment (no-color.org); COLUMNS overrides the width.
func ScreenOf(f *os.File, getenv func(string) string) Screen {
	var s Screen
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // the first that is set counts
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			s.UTF8 = strings.HasSuffix(v, "utf-8") || strings.HasSuffix(v, "utf8")
			break
		}
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		s.Width, s.Height = 80, 24
		s.Colour = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && getenv("TERM") != ""
		if w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 {
			s.Width, s.Height = int(w.Col), int(w.Row)
		}
	}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	return s
}

// Style is how a word is painted: the parameters of the escape sequence (ECMA-48 SGR).
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint returns text in a style, or as it is where there is no colour.
func (s Screen) Paint(style Style, text string) string {
	if !s.Colour || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// minText is the narrowest column that text is broken to.
const minText = 20

// Wrap breaks text between words so that lines fit when they are indented by so many
// columns; a word that is longer stays whole, so that commands can be copied.
func (s Screen) Wrap(text string, indent int) []string {
	room := max(s.Width-indent, minText)
	var lines []string
	var line string
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case s.Width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Printable returns text that came from outside with control characters, and what the screen cannot
// show, replaced: no escape sequence of somebody else's reaches a terminal.
func (s Screen) Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r > 0x7e && !s.UTF8 {
			return '?'
		}
		return r
	}, text)
}
