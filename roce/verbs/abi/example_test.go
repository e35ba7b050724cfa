package abi_test

import (
	"fmt"

	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/roce/verbs/abi"
)

// What a program passes to ibv_post_send, and what it finds in its completion.
func Example() {
	o, ok := abi.SendOpcode(1) // IBV_WR_RDMA_WRITE_WITH_IMM
	fmt.Println(o, ok)
	_, ok = abi.SendOpcode(10) // IBV_WR_TSO
	fmt.Println(ok)
	fmt.Println(abi.CompletionOpcode(verbs.WCRecvWriteImm)) // IBV_WC_RECV_RDMA_WITH_IMM
	// Output:
	// RDMA_WRITE_WITH_IMM true
	// false
	// 129 true
}
