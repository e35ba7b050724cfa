// Package abi has the numbers of the public header infiniband/verbs.h, for bindings that speak them. Most
// types of package verbs have those values already: states, attribute masks, rights, statuses, flags of work requests and
// completions, path MTUs and timer codes convert by a Go conversion, which the tests of this package hold. The others have
// functions here.
//
// The completions in the ring of [verbs.CQ.Ring] are in these numbers, too.
//
// All functions may be called from any goroutine. They allocate nothing.
package abi
