package lesson

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goroce/goroce/cmd/internal/explain"
)

// word is a term of the field.
type word struct {
	name   string
	also   []string // other forms of it, as texts have them
	text   string
	lesson string // that shows it
}

// words is the glossary.
var words = []word{
	{"access", []string{"rights"},
		"What peers may do with a memory region, decided when it is registered: write, read, atomics, or nothing.",
		"memory"},
	{"ACK", []string{"ACKs", "acknowledgement", "acknowledges", "acknowledged"},
		"The responder's answer: all requests up to this PSN are carried out. One ACK may answer for many packets.",
		"write"},
	{"ACK timeout", nil,
		"How long a requester waits for an answer before it sends again: 4.096 us x 2^timeout, at least.", "gone"},
	{"adapter", []string{"adapters", "device"},
		"What carries out work requests: a card (RNIC, HCA), the kernel's rxe, or goroce's engine.", "write"},
	{"address handle", nil, "Where a datagram goes: the peer's address, and how its packets are marked.", "ud"},
	{"atomic", []string{"atomics", "FETCH_ADD", "COMPARE_SWAP"},
		"A request that changes 8 bytes of the peer's memory in one step and returns what they were: FETCH_ADD adds, COMPARE_SWAP replaces one value by another.", "atomic"},
	{"CE", []string{"ECN", "ECT", "marks", "marked"},
		"Congestion experienced: two bits of the IP header by which a switch says that its queue is long. It sets them only if the sender has said that it understands (ECT).", "congestion"},
	{"CNP", []string{"CNPs"},
		"Congestion notification packet: a receiver of marked packets tells their sender to slow down.", "congestion"},
	{"communication manager", []string{"RDMA-CM", "CM", "REQ", "REP", "RTU", "REJ", "DREQ", "DREP"},
		"What makes connections by datagrams: REQ asks, REP agrees, RTU confirms, REJ refuses; DREQ and DREP end one.",
		"cm"},
	{"completion", []string{"completions"},
		"What the device says of a work request that has ended: which, and how. It lies in the completion queue until the program polls it.", "signalled"},
	{"completion queue", []string{"CQ"},
		"Where completions wait to be polled. Several queue pairs may share one.", "signalled"},
	{"credits", []string{"credit"},
		"How many receives the responder still has, said in each ACK, if it says so at all.", "credits"},
	{"DCQCN", nil, "The usual congestion control of RoCE: a CNP cuts the rate of a queue pair, and time and bytes without one raise it again.", "congestion"},
	{"duplicate", []string{"duplicates"},
		"A request that the responder has carried out before, as its PSN shows. It is answered, and not done again.",
		"ack"},
	{"error state", []string{"ERR"},
		"The state of a queue pair after a failure: everything that is posted is flushed. It has to be reset and connected anew.", "rkey"},
	{"fence", nil, "A flag of a work request: begin when all READs and atomics before are done.", "fence"},
	{"flushed", []string{"flush"},
		"How work requests end that were not carried out, because the queue pair was in the error state.", "rkey"},
	{"go back N", []string{"goes back", "going back"},
		"To send a lost packet and all behind it again, because the responder has dropped those.", "loss"},
	{"GRH", nil, "The global route header of InfiniBand. On RoCE v2 the IP header takes its place; datagrams leave 40 bytes for it in the receiver's memory.", "ud"},
	{"immediate", nil, "Four bytes that a message brings along, which the receiver finds in its completion. A WRITE with immediate consumes a receive.", "write"},
	{"incast", nil, "Many senders to one receiver at a time: the queue before its link grows.", "congestion"},
	{"invalidate", nil,
		"To make a key worthless: one's own by a work request, or the peer's by a SEND with invalidate.", "window"},
	{"lkey", nil, "The key of a memory region for the program's own work requests. It never leaves the host.",
		"memory"},
	{"memory region", []string{"MR", "region", "registered", "registration"},
		"Memory that was registered with the device, with a pair of keys and access rights.", "memory"},
	{"memory window", []string{"memory windows", "window"},
		"A key of its own for a part of a memory region, which a work request makes and takes back.", "window"},
	{"MTU", []string{"path MTU"},
		"The most bytes of payload in a packet: 256, 512, 1024, 2048 or 4096. Both ends of a connection use the same.",
		"mtu"},
	{"NAK", []string{"NAKs"},
		"An answer that refuses: a packet is missing (sequence), or the request is not permitted, not valid or not possible.", "loss"},
	{"one-sided", nil, "Of WRITE, READ and atomics: the program on the other side does nothing.", "write"},
	{"probe", nil,
		"goroce sends the last packet again after a few round trips without an answer, sooner than the ACK timeout.",
		"loss"},
	{"protection domain", []string{"domain"},
		"Queue pairs and memory of one program that belong together. A key of one domain is worthless in another.",
		"keys"},
	{"PSN", []string{"PSNs"},
		"Packet sequence number, 24 bits. Each direction of a connection counts its own.", "wrap"},
	{"Q_Key", nil, "A number in each datagram that must be the receiver's.", "ud"},
	{"queue pair", []string{"QP", "queue pairs"},
		"One end of a connection, or of datagrams: a send queue and a receive queue, with a number.", "connect"},
	{"queue pair number", []string{"queue pair numbers", "QPN"},
		"The number, 24 bits, by which packets name the queue pair that they are for.", "connect"},
	{"RC", nil,
		"Reliable connection: the service in which everything arrives once and in order, or the connection fails.",
		"order"},
	{"READ", []string{"READs"},
		"A one-sided request for bytes of the peer's memory. The responses bring them.", "read"},
	{"READ depth", []string{"max_rd_atomic", "max_dest_rd_atomic"},
		"How many READs and atomics may be on their way at a time.", "read"},
	{"receive", []string{"receives", "receive request"},
		"A work request that says where the next message may go. A SEND takes the oldest.", "rnr"},
	{"receive queue", []string{"RQ"}, "Where receives wait for messages.", "rnr"},
	{"requester", nil, "The end of a connection that asks: it sends the requests.", "loss"},
	{"RESET", []string{"INIT", "RTR", "RTS"},
		"The states of a queue pair on its way: RESET, INIT (it may have receives), RTR (ready to receive), RTS (ready to send).", "connect"},
	{"responder", nil, "The end of a connection that carries out requests and answers.", "loss"},
	{"RETH", nil,
		"The header with address, rkey and length, in the first packet of a WRITE and in a READ request.", "write"},
	{"retry_cnt", []string{"retries"},
		"How often a requester sends again without an answer before it gives up: at most 7.", "gone"},
	{"rkey", []string{"rkeys"},
		"The key of a memory region for peers. Who has it, and a connection, may do what the region permits.",
		"memory"},
	{"RNR", []string{"RNR NAK", "min_rnr_timer"},
		"Receiver not ready: no receive is posted. The NAK says how long to wait (min_rnr_timer).", "rnr"},
	{"RoCE", []string{"RDMA"},
		"RDMA over Converged Ethernet: InfiniBand's transport in UDP packets to port 4791. RDMA is remote direct memory access.", "connect"},
	{"rxe", nil, "Linux' RoCE in software, a driver of the kernel.", "window"},
	{"selective repeat", nil, "To send again only the packets that are missing.", "selective"},
	{"SEND", []string{"SENDs"}, "A message that goes where the receiver has said, in a receive.", "rnr"},
	{"send queue", []string{"SQ"},
		"Where work requests wait until they are done: until their ACK, or the data that they asked for.", "signalled"},
	{"signalled", []string{"IBV_SEND_SIGNALED"}, "Of a work request: success makes a completion.", "signalled"},
	{"UD", []string{"datagram", "datagrams"},
		"Unreliable datagram: the service without connections. A message is one packet, and nobody acknowledges it.",
		"ud"},
	{"work request", []string{"work requests", "WR"},
		"What a program posts to a queue: do this, or put a message there.", "signalled"},
	{"WRITE", []string{"WRITEs"}, "A one-sided request that puts bytes into the peer's memory.", "write"},
}

// findWord returns the entry for a term, in any of its forms.
func findWord(term string) *word {
	for i := range words {
		if w := &words[i]; strings.EqualFold(w.name, term) ||
			slices.ContainsFunc(w.also, func(a string) bool { return strings.EqualFold(a, term) }) {
			return w
		}
	}
	return nil
}

// terms finds the terms in a text: the longest that fits. Those with small letters may begin a
// sentence.
var terms = func() *regexp.Regexp {
	var all []string
	for _, w := range words {
		for _, form := range append([]string{w.name}, w.also...) {
			form = regexp.QuoteMeta(form)
			if c := form[0]; c >= 'a' && c <= 'z' {
				form = fmt.Sprintf("[%c%c]%s", c-32, c, form[1:])
			}
			all = append(all, form)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`\b(?:` + strings.Join(all, "|") + `)\b`)
}()

// texts are all that a lesson says before it is played.
func (l *lesson) texts() []string {
	all := []string{l.title, l.text}
	for _, p := range l.params {
		all = append(all, p.help)
	}
	for _, q := range l.questions {
		all = append(all, q.ask)
	}
	return all
}

// wordsIn are the terms of a lesson, in the order in which they come.
func wordsIn(l *lesson) (names []string) {
	for _, text := range l.texts() {
		for _, term := range terms.FindAllString(text, -1) {
			if w := findWord(term); !slices.Contains(names, w.name) {
				names = append(names, w.name)
			}
		}
	}
	return names
}

// glossary is the text of all words, or of some.
func glossary(some []string) (string, error) {
	var b strings.Builder
	list := words
	if len(some) > 0 {
		term := strings.Join(some, " ")
		w := findWord(term)
		if w == nil {
			return "", fmt.Errorf("%q is not in the glossary: roce lesson words lists it", term)
		}
		list = []word{*w}
	}
	for _, w := range list {
		name := w.name
		if len(w.also) > 0 {
			name += " (" + strings.Join(w.also, ", ") + ")"
		}
		fmt.Fprintf(&b, "%s\n%s", name, explain.Wrap("    ", w.text+" Lesson: "+w.lesson+"."))
	}
	return b.String(), nil
}
