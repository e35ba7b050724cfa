package doctor

import "fmt"

// Level says how bad a finding is.
type Level uint8

// The levels, from good to bad.
const (
	OK      Level = iota
	Note          // as good as it need be; something to know
	Unknown       // it could not be read
	Warn          // it works, and worse than it could
	Fail          // it does not work
)

var levels = [...]string{"ok", "note", "unknown", "warn", "fail"}

// String returns the word of the JSON output.
func (l Level) String() string { return levels[l] }

// MarshalText is for JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is for programs that read the JSON.
func (l *Level) UnmarshalText(b []byte) error {
	for i, w := range levels {
		if w == string(b) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("doctor: level %q", b)
}

// Finding is what a check found.
type Finding struct {
	Check   string   `json:"check"`
	Subject string   `json:"subject,omitempty"` // the interface or address that it is about
	Level   Level    `json:"level"`
	Found   string   `json:"found"`          // what there is
	Why     string   `json:"why,omitempty"`  // why that matters for RoCE
	Mend    []string `json:"mend,omitempty"` // commands for a shell; nothing to do if empty
}

// worst returns the worst level of findings. What is unknown is no worse than a note.
func worst(all []Finding) Level {
	w := OK
	for i := range all {
		w = max(w, all[i].Level)
	}
	return w
}

// Exit statuses; see the package comment.
const (
	exitFail = 1
	exitWarn = 3
)

func exitStatus(all []Finding) int {
	switch worst(all) {
	case Fail:
		return exitFail
	case Warn:
		return exitWarn
	}
	return 0
}
