package report

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var b strings.Builder
	tab := Begin(&b, "", "ns", "who")
	tab.Row("a|b", 3, `c\|d`)
	tab.Row("two\nlines")
	tab.Row(Cells([]float64{1.5, 2}, func(v float64) string { return "x" }, "of", "")[:3]...)
	want := "| | ns | who |\n|---|---|---|\n| a\\|b | 3 | c\\|d |\n| two lines | | |\n| of | | x |\n"
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a cell too many")
		}
	}()
	tab.Row(1, 2, 3, 4)
}

func TestNumberOf(t *testing.T) {
	if got := NumberOf(1, "row") + ", " + NumberOf(0, "row") + ", " + NumberOf(2, "check"); got !=
		"1 row, 0 rows, 2 checks" {
		t.Error(got)
	}
}
