package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"errors"
	"syscall"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/verbs"
)

const (
	eINVAL     = C.int(syscall.EINVAL)
	eNOMEM     = C.int(syscall.ENOMEM)
	eNOENT     = C.int(syscall.ENOENT)
	eOPNOTSUPP = C.int(syscall.EOPNOTSUPP)
)

// errno returns what the kernel's verbs answer in the case of an error of the stack.
func errno(err error) C.int {
	var number syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.Is(err, verbs.ErrQueueFull), errors.Is(err, verbs.ErrLimit), errors.Is(err, mem.ErrLimit):
		return eNOMEM
	case errors.Is(err, verbs.ErrBusy):
		return C.int(syscall.EBUSY)
	case errors.Is(err, verbs.ErrMulticast):
		return eOPNOTSUPP
	case errors.Is(err, verbs.ErrInvalidAttr):
		return eINVAL
	case errors.Is(err, verbs.ErrClosed) && !errors.Is(err, verbs.ErrDestroyed):
		return C.int(syscall.EIO) // the device is dead, as drivers say it
	case errors.As(err, &number):
		return C.int(number)
	}
	return eINVAL
}

// full returns ENOMEM for the handle that a full table gives out, and 0 for all others.
func full(handle C.goroce_handle) C.int {
	if handle == 0 {
		return eNOMEM
	}
	return 0
}
