package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import "github.com/goroce/goroce/roce/verbs"

var ahs table[verbs.AH]

//export goroce_create_ah
func goroce_create_ah(domain C.goroce_handle, a *C.struct_ibv_ah_attr, handle *C.goroce_handle) C.int {
	pd := pds.get(uint32(domain))
	if pd == nil || a.port_num != 1 || a.is_global == 0 {
		return eINVAL
	}
	av, err := vectorOf(a)
	if err != nil {
		return errno(err)
	}
	ah, err := pd.CreateAH(av)
	if err != nil {
		return errno(err)
	}
	*handle = C.goroce_handle(ahs.put(ah))
	return full(*handle)
}

//export goroce_destroy_ah
func goroce_destroy_ah(handle C.goroce_handle) C.int {
	ah := ahs.get(uint32(handle))
	if ah == nil {
		return eINVAL
	}
	if err := ah.Close(); err != nil {
		return errno(err)
	}
	ahs.drop(uint32(handle))
	return 0
}
