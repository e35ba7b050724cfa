package report

import (
	"encoding/json"
	"fmt"
	"os"
)

// Outcome is what became of a check.
type Outcome string

// The outcomes. A skip says elsewhere why.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// Tally counts outcomes; others than these three are not counted.
type Tally struct{ Passed, Failed, Skipped int }

// Add counts one.
func (t *Tally) Add(o Outcome) {
	switch o {
	case Pass:
		t.Passed++
	case Fail:
		t.Failed++
	case Skip:
		t.Skipped++
	}
}

func (t Tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped)
}

// WriteJSON writes data to a file, for people, too.
func WriteJSON(path string, data any) error {
	b, err := json.MarshalIndent(data, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
