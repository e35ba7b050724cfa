package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/goroce/goroce/bench/attack"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/bench/suite"
	files "github.com/goroce/goroce/internal/report"
)

// Where the table is in a page.
const (
	tableBegins = "<!-- made by bench attack: -->\n"
	tableEnds   = "<!-- until here -->\n"
)

// attackData is what -json writes.
type attackData struct {
	Commit  string
	Results []attack.Result
}

// attacks measures what strangers can do.
func attacks(args []string) error {
	fs := flag.NewFlagSet("bench attack", flag.ExitOnError)
	page := fs.String("o", "", "page whose table is to be replaced; empty: standard output")
	only := fs.String("only", "", "attacks whose names match this `regexp`")
	before := fs.Duration("before", 0, "how long is measured before an attack; 0: 1.5 s")
	during := fs.Duration("during", 0, "how long is measured during an attack; 0: 3 s")
	data := fs.String("json", "", "`file` to write the results to")
	beside := fs.String("beside", "", "`file` of another run, of another commit, that the table has in its last column")
	seed := fs.Uint64("seed", 1, "of what attackers guess")
	_ = fs.Parse(args) // ends the program on error
	o := attack.Options{Before: *before, During: *during, Seed: *seed,
		Logf: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }}
	if *only != "" {
		re, err := regexp.Compile(*only)
		if err != nil {
			return err
		}
		o.Only = re
	}
	var old attackData
	if *beside != "" {
		b, err := os.ReadFile(*beside)
		if err == nil {
			err = json.Unmarshal(b, &old)
		}
		if err != nil {
			return err
		}
	}
	var m report.Machine
	if _, err := suite.Watch(&m); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	results, err := attack.Run(ctx, o)
	if err != nil {
		return err
	}
	if *data != "" {
		if err := files.WriteJSON(*data, attackData{m.Commit, results}); err != nil {
			return err
		}
	}
	var table bytes.Buffer
	fmt.Fprintf(&table,
		"`go run ./bench/cmd/bench attack` at %s, %s, %s, %d processors for all, load %.1f at the start:\n\n",
		m.Commit, m.Time, m.CPU, m.Cores, m.LoadStart)
	attack.WriteTable(&table, results, old.Results, old.Commit)
	if *page == "" {
		_, err := os.Stdout.Write(table.Bytes())
		return err
	}
	b, err := os.ReadFile(*page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), tableBegins)
	_, tail, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the table, between %q and %q", *page,
			strings.TrimSpace(tableBegins), strings.TrimSpace(tableEnds))
	}
	return os.WriteFile(*page, []byte(head+tableBegins+table.String()+tableEnds+tail), 0o644)
}
