package run

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files that "make verbs" makes. The first one says what programs the libraries are for.
var libraryFiles = []string{"libibverbs.so.1", "librdmacm.so.1", "libgoroce.so", hookFile, "goroce_will"}

// hookFile is preloaded: it answers for device files that some programs look for.
const hookFile = "libgoroce_hook.so"

// libraries is a folder with all of libraryFiles.
type libraries struct {
	dir     string
	class   elf.Class
	machine elf.Machine
}

// findLibraries looks for the folder: where the user says, or beside the program, or where packages
// are installed.
func findLibraries(named, self string) (*libraries, error) {
	places := []string{named}
	if named == "" {
		places = nil
		for _, p := range []string{self, resolved(self)} {
			if p != "" {
				dir := filepath.Dir(p)
				places = append(places, filepath.Join(dir, "verbs"), filepath.Join(dir, "..", "lib", "goroce"))
			}
		}
		places = append(places, "/usr/local/lib/goroce", "/usr/lib/goroce")
	}
	var looked []string
	for _, dir := range places {
		abs, err := filepath.Abs(dir)
		if err != nil || slices.Contains(looked, abs) {
			continue
		}
		looked = append(looked, abs)
		missing := missingIn(abs)
		if len(missing) == len(libraryFiles) {
			continue
		}
		if len(missing) > 0 {
			return nil, fmt.Errorf("%s lacks %s: build the libraries anew with \"make verbs\"", abs,
				strings.Join(missing, ", "))
		}
		return openLibraries(abs)
	}
	return nil, fmt.Errorf("the libraries are not there: build them with \"make verbs\", or name their folder in %s (looked in %s)",
		libVar, strings.Join(looked, ", "))
}

// resolved follows symbolic links to the program; "" if it cannot.
func resolved(self string) string {
	if p, err := filepath.EvalSymlinks(self); err == nil {
		return p
	}
	return ""
}

func missingIn(dir string) (missing []string) {
	for _, name := range libraryFiles {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || !i.Mode().IsRegular() {
			missing = append(missing, name)
		}
	}
	return missing
}

func openLibraries(dir string) (*libraries, error) {
	// The loader takes these apart, and knows no way to quote.
	if strings.ContainsAny(dir, ":;$") {
		return nil, fmt.Errorf("the libraries are in %s: the loader cannot be told of a path with one of : ; $", dir)
	}
	f, err := elf.Open(filepath.Join(dir, libraryFiles[0]))
	if err != nil {
		var file *fs.PathError
		if errors.As(err, &file) {
			return nil, err
		}
		return nil, fmt.Errorf("%s is no library (%w): build it anew with \"make verbs\"",
			filepath.Join(dir, libraryFiles[0]), err)
	}
	defer f.Close()
	return &libraries{dir: dir, class: f.Class, machine: f.Machine}, nil
}

// set brings the libraries before all others, and the hook behind those that are preloaded already,
// whose functions it must not take away.
func (l *libraries) set(vars *environ) {
	path := []string{l.dir}
	for _, d := range strings.FieldsFunc(vars.get(libraryPathVar), func(r rune) bool { return r == ':' || r == ';' }) {
		if d != l.dir {
			path = append(path, d)
		}
	}
	vars.set(libraryPathVar, strings.Join(path, ":"))
	hook := filepath.Join(l.dir, hookFile)
	if strings.Contains(hook, " ") {
		hook = hookFile // spaces separate here; the loader finds it in the folder
	}
	preload := strings.FieldsFunc(vars.get(preloadVar), func(r rune) bool { return r == ':' || r == ' ' })
	if !slices.Contains(preload, hook) {
		preload = append(preload, hook)
	}
	vars.set(preloadVar, strings.Join(preload, ":"))
	// The runtime of AddressSanitizer ends a program in which it is not the first library, unless
	// it is told not to look. It gets along with the hook, which calls it. What the user has set
	// comes behind, and counts.
	if own := vars.get(asanVar); own == "" {
		vars.set(asanVar, asanOrder)
	} else if !strings.Contains(own, asanOrder) {
		vars.set(asanVar, asanOrder+":"+own)
	}
}
