// Package trace is a link middleware that writes every packet to a pcapng
// file, in the form in which it is on the wire: raw IP, UDP, transport headers,
// payload, ICRC. Wireshark and tshark read it.
//
// The link below builds the IP header, so the trace has a reconstruction of
// it. On sent packets it is right in every field that the ICRC covers, except
// that packets which leave as segments of one datagram are shown with
// identification 0 and the ICRC that belongs to that. On received packets the
// identification is the one for which the ICRC is right.
//
// Wrap with [New]; verbs.Config.WrapLink is the place for it. Writing happens
// in the path of the packets: give it a buffered file, not a pipe to something slow. An
// error of the writer ends the trace, not the traffic; [Link.Err] tells. For what else writes
// packets to a capture, [Headers] and [AppendHeaders] make the headers.
package trace
