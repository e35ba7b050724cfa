package store

import "unsafe"

// offset returns where b, which is a part of whole, begins in it.
func offset(whole, b []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
}
