package drill

import (
	"slices"
	"strconv"
	"strings"
)

// head takes a line of the head. It reports whether the line was one.
func (p *parser) head(w []word, line string) (bool, error) {
	d, key := p.d, w[0].text
	rest := ""
	if len(w) > 1 {
		rest = strings.TrimSpace(line[w[1].at.col-1:])
	}
	switch key {
	case "title", "about", "clause", "seen", "deviates", "stops", "logs", "tags", "needs":
	default:
		return false, nil
	}
	switch {
	case len(d.steps) > 0 || len(p.open) > 0:
		return true, errAt(w[0].at, "%s belongs to the head, before the steps", key)
	case rest == "":
		return true, errAt(w[0].at, "%s of what?", key)
	}
	switch key {
	case "title":
		if d.Title != "" {
			return true, errAt(w[0].at, "a second title")
		}
		d.Title = rest
	case "about":
		d.About = append(d.About, rest)
	case "clause":
		d.Authority = append(d.Authority, Authority{Clause, rest})
	case "seen":
		k := AuthorityKind(w[1].text)
		if (k != SeenRxe && k != ConnectX) || len(w) < 3 {
			return true, errAt(w[1].at, "seen rxe|connectx VERSIONS, and what")
		}
		d.Authority = append(d.Authority, Authority{k, strings.TrimSpace(line[w[2].at.col-1:])})
	case "deviates":
		return true, p.deviates(w[1:], line, key, &d.Deviations)
	case "stops":
		return true, p.deviates(w[1:], line, key, &d.Stops)
	case "logs":
		return true, p.logs(w[1:], line)
	case "tags":
		for _, t := range w[1:] {
			d.Tags = append(d.Tags, t.text)
		}
	case "needs":
		for _, t := range w[1:] {
			f := Feature(t.text)
			if !slices.Contains(features, f) {
				var all []string
				for _, f := range features {
					all = append(all, string(f))
				}
				return true, errAt(t.at, "%q is not a feature: use %s", t.text, oneOf(all))
			}
			d.Needs = append(d.Needs, f)
		}
	}
	return true, nil
}

// deviates is "deviates PROFILE [row=N] TEXT", and "stops" with the same.
func (p *parser) deviates(w []word, line, key string, list *[]Deviation) error {
	at := w[0].at
	x := Deviation{For: Profile(w[0].text)}
	if !x.For.known() || x.For == Spec {
		return errAt(w[0].at, "%q is not a profile that can deviate: use %s", w[0].text,
			strings.TrimPrefix(allKnown, "spec, "))
	}
	w = w[1:]
	if len(w) > 0 && strings.HasPrefix(line[w[0].at.col-1:], "row=") {
		n, err := strconv.Atoi(w[0].text[len("row="):])
		if err != nil || n < 1 {
			return errAt(w[0].at, "%q: row= is a row of docs/rxe.md", w[0].text)
		}
		x.Row, w = n, w[1:]
	}
	if len(w) == 0 {
		return errAt(at, "%s PROFILE [row=N] TEXT: the text is missing", key)
	}
	x.Text = strings.TrimSpace(line[w[0].at.col-1:])
	*list = append(*list, x)
	return nil
}

// logs is "logs PROFILE PLACE".
func (p *parser) logs(w []word, line string) error {
	x := Warning{For: Profile(w[0].text)}
	switch {
	case !x.For.is(Rxe):
		return errAt(w[0].at, "%q is not the profile of a kernel: use rxe, rxe-VERSION", w[0].text)
	case len(w) != 3:
		return errAt(w[0].at, "logs PROFILE FILE:LINE FUNCTION")
	}
	x.Place = strings.TrimSpace(line[w[1].at.col-1:])
	p.d.Warnings = append(p.d.Warnings, x)
	return nil
}
