package tool

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// Output has a command write its results: to the file that an option names, or to Stdout if it
// names none.
func (e *Env) Output(file string, write func(io.Writer) error) error {
	if file == "" {
		w := bufio.NewWriter(e.Stdout)
		return errors.Join(write(w), w.Flush())
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(write(w), w.Flush(), f.Close())
}
