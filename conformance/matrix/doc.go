// Package matrix holds the interop checks: operations, sizes, path MTUs and address
// families; faults on chosen packets; error scenarios; and unmodified programs. Each
// check is written against peer.Peer, so that any two implementations can be put
// against each other; which of them is the subject is said by the row's role.
//
// # Rows
//
// Each check ends as one Row. A row passes only if every byte and every completion
// field was as expected, and if the fault that it names did happen.
//
// # Choice of PSNs
//
// Every queue pair starts at firstPSN, shortly below 2^24, so that the larger transfers
// of each operation cross the wrap in the middle of a message.
//
// # Memory discipline
//
// Each side has one arena. A transfer goes to an odd offset in it, with guard bytes on
// both sides that are checked afterwards.
package matrix
