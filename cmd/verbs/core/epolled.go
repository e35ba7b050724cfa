package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// epolled reports whether a set of epoll of this process has a descriptor, as far as the kernel
// tells. It takes some microseconds for each descriptor of the process.
func epolled(fd int) bool {
	const infos = "/proc/self/fdinfo"
	all, _ := os.ReadDir(infos)
	for _, e := range all {
		if to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); to != "anon_inode:[eventpoll]" {
			continue
		}
		info, _ := os.ReadFile(filepath.Join(infos, e.Name()))
		for line := range strings.Lines(string(info)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "tfd:" && f[1] == strconv.Itoa(fd) {
				return true
			}
		}
	}
	return false
}
