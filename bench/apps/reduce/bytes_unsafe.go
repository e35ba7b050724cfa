package reduce

import "unsafe"

// bytesOf is the memory of a slice, as a link sees it.
func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
