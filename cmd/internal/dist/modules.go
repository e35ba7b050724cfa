package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkModules takes the checkout for a release and uses it as others would: a proxy in a folder
// has the main module and roce/prometheus, whatever go.mod of the latter asks for is the version of
// both; then "go install .../cmd/roce@version" in an empty folder, and a program that imports
// roce/prometheus. What is replaced, generated or not committed breaks either.
func checkModules(ctx context.Context) error {
	mod, err := os.ReadFile("roce/prometheus/go.mod")
	if err != nil {
		return err
	}
	version := ""
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(strings.TrimPrefix(line, "require ")); len(f) >= 2 &&
			f[0] == modulePath && f[1] != "=>" {
			version = f[1]
		}
	}
	if version == "" || version == "v0.0.0" {
		return fmt.Errorf("roce/prometheus/go.mod asks for %s %q, which will be no release", modulePath, version)
	}
	dir, err := os.MkdirTemp("", "goroce-modules-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	names, err := output(ctx, ".", "git", "ls-files", "-z")
	if err != nil {
		return err
	}
	files := strings.Split(strings.TrimRight(names, "\x00"), "\x00")
	for _, sub := range []string{"", "roce/prometheus"} {
		if err := serve(filepath.Join(dir, "proxy"), sub, version, files); err != nil {
			return err
		}
	}
	cache, err := output(ctx, ".", goTool(), "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	upstream, err := output(ctx, ".", goTool(), "env", "GOPROXY")
	if err != nil {
		return err
	}
	b := &builder{environ: append(os.Environ(),
		"GOPROXY=file://"+filepath.Join(dir, "proxy")+",file://"+filepath.Join(cache, "cache", "download")+","+upstream,
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GOFLAGS=-modcacherw", "GONOSUMDB=*", "GONOSUMCHECK=1",
		"GOSUMDB=off", "GOWORK=off", "GOBIN="+filepath.Join(dir, "bin"))}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		return err
	}
	if err := b.command(ctx, empty, nil, goTool(), "install", modulePath+"/cmd/roce@"+version); err != nil {
		return err
	}
	says, err := output(ctx, empty, filepath.Join(dir, "bin", "roce"), "version")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(says, "roce "+version+" (") {
		return fmt.Errorf("roce of go install ...@%s says that it is %q", version, says)
	}
	logf("go install %s/cmd/roce@%s: %s", modulePath, version, says)
	user := filepath.Join(dir, "user")
	if err := os.Mkdir(user, 0o755); err != nil {
		return err
	}
	main := "package main\n\nimport _ \"" + modulePath + "/roce/prometheus\"\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(user, "main.go"), []byte(main), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/user"},
		{"get", modulePath + "/roce/prometheus@" + version},
		{"build", "-o", os.DevNull, "."},
	} {
		if err := b.command(ctx, user, nil, goTool(), args...); err != nil {
			return err
		}
	}
	logf("go get %s/roce/prometheus@%s: builds", modulePath, version)
	return nil
}

// serve puts a module of the checkout into a folder that is a proxy for Go: what is below sub and
// below no other module's folder in there.
func serve(proxy, sub, version string, files []string) error {
	path := modulePath
	prefix := ""
	if sub != "" {
		path, prefix = modulePath+"/"+sub, sub+"/"
	}
	var others []string
	for _, f := range files {
		if d := strings.TrimSuffix(f, "go.mod"); d != f && d != prefix && strings.HasPrefix(d, prefix) {
			others = append(others, d)
		}
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
next:
	for _, f := range files {
		name, ok := strings.CutPrefix(f, prefix)
		if !ok {
			continue
		}
		for _, o := range others {
			if strings.HasPrefix(f, o) {
				continue next
			}
		}
		data, err := os.ReadFile(f)
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return err
		}
		w, err := z.Create(path + "@" + version + "/" + name)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(sub, "go.mod"))
	if err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".mod": mod, version + ".zip": b.Bytes(),
		version + ".info": []byte(`{"Version":"` + version + `","Time":"2020-01-01T00:00:00Z"}`),
	} {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
