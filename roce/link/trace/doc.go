// Package trace is a link middleware that writes every packet to a pcapng file, in its form on the
// wire: raw IP, UDP, transport headers, payload, ICRC. Wireshark and tshark read it.
//
// The link below builds the IP header, so the trace has a reconstruction of it. On sent packets it
// is right in every field that the ICRC covers, except that packets which leave as segments of one
// datagram are shown with identification 0 and the matching ICRC. On received packets the
// identification is the one for which the ICRC is right.
//
// Wrap with [New], typically in verbs.Config.WrapLink. Writing happens in the path of the packets:
// use a buffered file, not a pipe to something slow. An error of the writer ends the trace, not the
// traffic; [Link.Err] returns it. [Headers] and [AppendHeaders] make the headers for other code
// that writes packets to a capture.
package trace
