package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import "github.com/goroce/goroce/roce/verbs"

// userPD is the Go half of an ibv_pd.
type userPD struct {
	*verbs.PD
	ctx *userContext
}

var pds table[userPD]

//export goroce_alloc_pd
func goroce_alloc_pd(device C.goroce_handle, handle *C.goroce_handle) C.int {
	c := contexts.get(uint32(device))
	if c == nil {
		return eINVAL
	}
	pd, err := c.AllocPD()
	if err != nil {
		return errno(err)
	}
	*handle = C.goroce_handle(pds.put(&userPD{pd, c}))
	return full(*handle)
}

//export goroce_dealloc_pd
func goroce_dealloc_pd(handle C.goroce_handle) C.int {
	pd := pds.get(uint32(handle))
	if pd == nil {
		return eINVAL
	}
	if err := pd.Close(); err != nil {
		return errno(err)
	}
	pds.drop(uint32(handle))
	return 0
}
