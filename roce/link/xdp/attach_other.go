//go:build !linux

package xdp

import (
	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/goroce/goroce/internal/unix"
)

func attach(*ebpf.Program, int, bool) (bpflink.Link, error) { return nil, unix.ErrLinux }

func off(*bpflink.Info) bool { return false }
