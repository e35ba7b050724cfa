package explain

import (
	"io"

	"github.com/goroce/goroce/roce/analyse"
)

// Page writes the page of a capture that other commands have made.
func Page(w io.Writer, name string, capture io.Reader) error {
	e := &explanation{Name: name}
	drawn := &window{most: drawnPackets}
	if err := e.read(capture, analyse.Options{}, drawn); err != nil {
		return err
	}
	return e.page(drawn).write(w)
}

// Wrap breaks text at spaces; every line begins with indent.
func Wrap(indent, text string) string { return textStyle{width: defaultWidth}.wrap(indent, text) }
