package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/internal/cli"
	"github.com/goroce/goroce/cmd/internal/tool"
)

// manuals are the man pages, by name: roce(1), and one for each tool. They say what "-h" says, so
// that neither is behind.
func manuals(version string, when time.Time) (map[string]string, error) {
	ctx := context.Background()
	pages := map[string]string{}
	add := func(name, summary, text string) {
		pages[name+".1"] = manual(name, summary, text, version, when)
	}
	var out bytes.Buffer
	env := &tool.Env{Stdout: &out, Stderr: &out}
	if status := cli.Run(ctx, env, []string{"help"}); status != 0 {
		return nil, fmt.Errorf("roce help: exit status %d", status)
	}
	add("roce", "RDMA over Converged Ethernet v2 in user space", out.String())
	for _, c := range cli.Commands() {
		var text *tool.Text
		if err := c.Run(ctx, env, []string{"-h"}); !errors.As(err, &text) {
			return nil, fmt.Errorf("roce %s -h gives no text: %v", c.Name, err)
		}
		add("roce-"+c.Name, c.Summary, text.Text)
	}
	return pages, nil
}

// manual is a text of "-h" as a page: its headings are lines that end in a colon, its layout stays
// as it is.
func manual(name, summary, text, version string, when time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"goroce %s\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name),
		when.UTC().Format("2006-01-02"), version, escape(name), escape(summary))
	_, body, _ := strings.Cut(text, "\n") // the first line is name and summary
	headings := map[string]string{"Usage:": "SYNOPSIS", "Options:": "OPTIONS", "Tools:": "TOOLS"}
	open := false
	for line := range strings.Lines(strings.Trim(body, "\n")) {
		line = strings.TrimRight(line, "\n")
		if h, ok := headings[line]; ok {
			if open {
				b.WriteString(".fi\n")
			}
			fmt.Fprintf(&b, ".SH %s\n.nf\n", h)
			open = true
			continue
		}
		if !open {
			b.WriteString(".SH DESCRIPTION\n.nf\n")
			open = true
		}
		b.WriteString(escape(line) + "\n")
	}
	if open {
		b.WriteString(".fi\n")
	}
	if name != "roce" {
		b.WriteString(".SH SEE ALSO\n.BR roce (1)\n")
	}
	return b.String()
}

// escape keeps troff from taking text for requests, and hyphens of options from becoming others.
func escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
