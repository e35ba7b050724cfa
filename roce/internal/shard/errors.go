package shard

import (
	"io/fs"
	"net"
)

// ErrClosed is what every call on a closed device returns: it is verbs.ErrClosed.
var ErrClosed error = closed{}

type closed struct{}

func (closed) Error() string { return "roce: closed" }

// Is makes errors.Is match net.ErrClosed and fs.ErrClosed as well.
func (closed) Is(target error) bool { return target == net.ErrClosed || target == fs.ErrClosed }
