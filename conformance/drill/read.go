package drill

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// extension is the ending of the names of scripts.
const extension = ".drill"

// own is the authority of a script that Read has read, and that names none.
const own AuthorityKind = "own"

// Read reads scripts of a user's own: files, and the files in folders whose names end with
// ".drill", in the order of their names. Unlike those of this package they need neither title nor
// authority. The error is of all files that are none.
func Read(paths ...string) (list []*Drill, err error) {
	var errs []error
	at := map[string]string{}
	for _, path := range paths {
		files, err := scriptsAt(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, f := range files {
			d, err := readFile(f)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if first := at[d.Name]; first != "" {
				errs = append(errs,
					fmt.Errorf("%s: the name of %s is %s, too: rows could not be told apart", f, first, d.Name))
				continue
			}
			at[d.Name] = f
			list = append(list, d)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return list, nil
}

// scriptsAt are a file, or the scripts of a folder.
func scriptsAt(path string) (files []string, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // in the order of their names
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), extension) && !e.IsDir() {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there is no file *%s", path, extension)
	}
	return files, nil
}

func readFile(path string) (*Drill, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxScriptBytes+1))
	if err != nil {
		return nil, err
	}
	d, err := parse(path, src)
	if err != nil {
		return nil, err
	}
	if d.Name = strings.TrimSuffix(filepath.Base(path), extension); d.Title == "" {
		d.Title = d.Name
	}
	if len(d.Authority) == 0 {
		d.Authority = []Authority{{own, "the script " + path}}
	}
	return d, nil
}
