// Package quota makes control groups that get no more than a share of a CPU, as containers with a
// limit do. It finds the controller itself, of version 1 or 2. It needs root, or a group that was
// handed to the user.
//
// # Concurrency
//
// A Group may be used from anywhere until it is closed.
package quota

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// Period is how often a group gets its share anew: that of Kubernetes and of Docker.
const Period = 100 * time.Millisecond

// The files in which the kernel says where the groups are.
const (
	mountInfo = "/proc/self/mountinfo"
	ownGroups = "/proc/self/cgroup"
)

// Group is a control group.
type Group struct{ dir string }

// New makes a group whose members together get so many CPUs: 0.5 is half of one. The name is unique
// in this machine.
func New(name string, cpus float64) (*Group, error) {
	mounts, err := os.ReadFile(mountInfo)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(ownGroups)
	if err != nil {
		return nil, err
	}
	ps := parents(mounts, own)
	if len(ps) == 0 {
		return nil, errors.New("no file system of control groups is mounted that has the CPU controller")
	}
	var errs error
	for _, p := range ps {
		g, err := p.make(name, cpus)
		if err == nil {
			return g, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, errs
}

// Dir is its folder.
func (g *Group) Dir() string { return g.dir }

// Close removes it, once no process is in it.
func (g *Group) Close() error {
	var err error
	for range 100 { // the kernel may be at the end of a process that has been waited for
		if err = os.Remove(g.dir); err == nil || !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// parent is a folder in which groups can be made.
type parent struct {
	dir     string
	version int
}

// parents returns where to try, best first: below the group of this process, then at the top.
// Version 1 comes first: a controller that is mounted there is not available to version 2.
func parents(mounts, own []byte) []parent {
	var one, two []parent
	for line := range bytes.Lines(mounts) {
		// ID, parent, device, root, mount point, options, optional fields, "-", type, source,
		// options of the file system
		head, tail, ok := strings.Cut(string(line), " - ")
		f, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 5 || len(t) < 3 {
			continue
		}
		root, point := unescape(f[3]), unescape(f[4])
		switch {
		case t[0] == "cgroup" && slices.Contains(strings.Split(t[2], ","), "cpu"):
			one = append(one, below(point, root, groupOf(own, "cpu"), 1)...)
		case t[0] == "cgroup2":
			two = append(two, below(point, root, groupOf(own, ""), 2)...)
		}
	}
	return append(one, two...)
}

// below returns the folder of a group and that of the mount point.
func below(point, root, group string, version int) []parent {
	ps := []parent{{point, version}}
	if strings.Contains(group, "/..") { // above what this process sees
		return ps
	}
	rel, err := filepath.Rel(root, group)
	if err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../") {
		ps = slices.Insert(ps, 0, parent{filepath.Join(point, rel), version})
	}
	return ps
}

// groupOf returns the group that a process is in, for a controller of version 1, or with "" of
// version 2.
func groupOf(own []byte, controller string) string {
	for line := range bytes.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3) // number, controllers, group
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			return f[2]
		}
	}
	return "/"
}

// unescape undoes what mountinfo does to blanks and the like.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// make makes a group.
func (p parent) make(name string, cpus float64) (*Group, error) {
	if p.version == 2 {
		if err := p.enable(); err != nil {
			return nil, err
		}
	}
	g := &Group{filepath.Join(p.dir, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	for _, l := range limits(p.version, cpus) {
		if err := os.WriteFile(filepath.Join(g.dir, l.file), []byte(l.value), 0); err != nil {
			return nil, errors.Join(err, g.Close())
		}
		b, err := os.ReadFile(filepath.Join(g.dir, l.file))
		if got := strings.TrimSpace(string(b)); err == nil && got != l.value {
			err = fmt.Errorf("%s: %q was written, and %q is read", filepath.Join(g.dir, l.file), l.value, got)
		}
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// enable lets groups below have the CPU controller.
func (p parent) enable() error {
	file := filepath.Join(p.dir, "cgroup.subtree_control")
	b, err := os.ReadFile(file)
	if err != nil || slices.Contains(strings.Fields(string(b)), "cpu") {
		return err
	}
	if b, err = os.ReadFile(filepath.Join(p.dir, "cgroup.controllers")); err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(b)), "cpu") {
		return fmt.Errorf("%s has no CPU controller", p.dir)
	}
	return os.WriteFile(file, []byte("+cpu"), 0)
}

// limit is what is written to a file.
type limit struct{ file, value string }

// limits are what gives a group so many CPUs.
func limits(version int, cpus float64) []limit {
	period := Period.Microseconds()
	share := int64(cpus * float64(period))
	if version == 2 {
		return []limit{{"cpu.max", fmt.Sprintf("%d %d", share, period)}}
	}
	return []limit{{"cpu.cfs_period_us", fmt.Sprint(period)}, {"cpu.cfs_quota_us", fmt.Sprint(share)}}
}
