package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"github.com/goroce/goroce/roce/verbs"
)

var mws table[verbs.MW]

//export goroce_alloc_mw
func goroce_alloc_mw(domain C.goroce_handle, kind C.int, rkey *C.uint32_t, handle *C.goroce_handle) C.int {
	pd := pds.get(uint32(domain))
	if pd == nil {
		return eINVAL
	}
	var t verbs.WindowType
	switch kind {
	case C.IBV_MW_TYPE_1:
		t = verbs.WindowType1
	case C.IBV_MW_TYPE_2:
		t = verbs.WindowType2B
	default:
		return eINVAL
	}
	mw, err := pd.AllocMW(t)
	if err != nil {
		return errno(err)
	}
	*rkey = C.uint32_t(mw.RKey())
	*handle = C.goroce_handle(mws.put(mw))
	return full(*handle)
}

//export goroce_dealloc_mw
func goroce_dealloc_mw(handle C.goroce_handle) C.int {
	mw := mws.get(uint32(handle))
	if mw == nil {
		return eINVAL
	}
	if err := mw.Close(); err != nil {
		return errno(err)
	}
	mws.drop(uint32(handle))
	return 0
}
