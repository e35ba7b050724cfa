// Package conformance and the packages below it test this stack against the
// Linux kernel's rdma_rxe.
//
//   - lab boots QEMU guests with a distribution's kernel and tools, and runs
//     commands in them;
//   - lab/ether is the Ethernet switch that joins the guests and this machine: it
//     applies faults to chosen packets, keeps a trace and writes captures;
//   - verbs speaks to the agent that calls libibverbs inside a guest;
//   - peer is what the matrix needs of an implementation, with one adapter for
//     each of them;
//   - matrix holds the checks themselves;
//   - captures records captures with faults and judges what roce/analyse says of them;
//   - drill plays packet drills, short scripts of one behaviour each, against goroce in
//     virtual time, goroce on the udp link, rxe, or any other peer;
//   - programs runs RDMA programs as Debian ships them on this project's verbs libraries;
//   - cmd/lab has the commands: interop runs the matrix and writes the table.
//
// The checks never look inside the code under test: they see what verbs report
// and what went over the wire, and decode packets with code of their own.
package conformance
