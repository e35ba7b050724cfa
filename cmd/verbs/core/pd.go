package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"sync"

	"github.com/goroce/goroce/roce/verbs"
)

// userPD is the Go half of an ibv_pd.
type userPD struct {
	*verbs.PD
	ctx *userContext

	mu    sync.Mutex
	token *verbs.MR // see goroce_bind_mw; nil until it is needed
}

// tokenRegion returns a region of one byte that holds nothing.
func (pd *userPD) tokenRegion() (*verbs.MR, error) {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.token == nil {
		mr, err := pd.RegisterMR(make([]byte, 1), verbs.MWBind|verbs.RemoteRead, nil)
		if err != nil {
			return nil, err
		}
		pd.token = mr
	}
	return pd.token, nil
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
	*handle = C.goroce_handle(pds.put(&userPD{PD: pd, ctx: c}))
	return full(*handle)
}

//export goroce_dealloc_pd
func goroce_dealloc_pd(handle C.goroce_handle) C.int {
	pd := pds.get(uint32(handle))
	if pd == nil {
		return eINVAL
	}
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.token != nil {
		if err := pd.token.Close(); err != nil {
			return errno(err)
		}
		pd.token = nil // it is made again if the domain turns out to be in use
	}
	if err := pd.Close(); err != nil {
		return errno(err)
	}
	pds.drop(uint32(handle))
	return 0
}
