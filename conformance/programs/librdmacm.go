package programs

import (
	"fmt"
	"strings"
)

const allWell = "return status 0"

// cmCases are the examples of librdmacm.
func cmCases() []Case {
	var all []Case
	add := func(server, client, label string, check func(string, string) error, more ...func(*Case)) {
		c := Case{
			Group: groupCM, Label: label, Ready: listeningCM, Check: check,
			Server: strings.Fields(server), Client: strings.Fields(client),
		}
		c.Program = c.Client[0]
		for _, m := range more {
			m(&c)
		}
		all = append(all, c)
	}
	quick := func(c *Case) { c.Quick = true }
	one := func(c *Case) { c.OneAddress = true }
	v6 := func(c *Case) { c.V6, c.Label = true, strings.TrimPrefix(c.Label+", IPv6", ", ") }
	stays := func(c *Case) { c.Stays = true }
	// A program and its arguments, with other ones for each side in front.
	same := func(program, sargs, cargs, args string, check func(string, string) error, more ...func(*Case)) {
		add(program+" "+sargs+" "+args, program+" "+cargs+" "+args, args, check, more...)
	}
	rping := func(size, count int, more ...func(*Case)) {
		same("rping", "-s -a SERVER", "-c -a SERVER", fmt.Sprintf("-S %d -C %d -v -V", size, count),
			has(fmt.Sprintf("ping data: rdma-ping-%d:", count-1)), more...)
	}
	rping(4096, 20, quick, one)
	rping(65535, 5)
	rping(100, 10, v6)
	same("rping", "-s -a SERVER", "-c -a SERVER", "-q -C 10 -v -V", has("ping data: rdma-ping-9:"))
	same("rping", "-s -P -a SERVER", "-c -a SERVER", "-C 10 -v -V", has("ping data: rdma-ping-9:"), stays)
	ucmatose := func(args string, more ...func(*Case)) {
		same("ucmatose", "-b SERVER", "-s SERVER", args, bothHave(allWell), more...)
	}
	ucmatose("-c 5 -S 6000", quick, one)
	ucmatose("-c 20 -C 50 -S 100")
	ucmatose("-c 2 -S 100", v6)
	ucmatose("-c 3 -m -S 100")
	ucmatose("-c 1 -t 32 -a 18")
	same("udaddy", "-b SERVER", "-s SERVER", "-c 3 -S 1000", bothHave(allWell), quick, one)
	same("udaddy", "-b SERVER", "-s SERVER", "-c 1 -S 100", bothHave(allWell), v6)
	same("mckey", "-b LOCAL", "-s -b LOCAL", "-m GROUP -S 1000", bothHave(allWell),
		func(c *Case) { c.Ready = joinedCM })
	add("rdma_server -s SERVER", "rdma_client -s SERVER", "", bothHave("end 0"), quick, one)
	add("rdma_server -s SERVER", "rdma_client -s SERVER", "", bothHave("end 0"), v6)
	add("rdma_xserver", "rdma_xclient -s SERVER", "RC", bothHave("end 0"))
	add("rdma_xserver -c x", "rdma_xclient -s SERVER -c x", "XRC", nil, refused("rdma_create"))
	rsocket := func(program, args string, more ...func(*Case)) {
		same(program, "-b SERVER", "-s SERVER", args+" -T v", has("custom "), more...)
	}
	rsocket("rstream", "-S 100 -C 500", quick, one)
	rsocket("rstream", "-S 300000 -C 10")
	rsocket("rstream", "-S 20000 -C 10 -I 2 -B 3000 -T b")
	rsocket("rstream", "-S 3000 -C 50 -I 4", v6)
	rsocket("rstream", "-S 1 -C 1000 -I 2 -T n")
	rsocket("rstream", "-S 5000 -C 20 -k 1")
	// With -T f it is on TCP: it forks with a connection that it has.
	rsocket("rstream", "-S 1000 -C 20 -T f", func(c *Case) { c.Ready, c.Port = "", 7471 })
	same("rstream", "-b SERVER", "-s SERVER", "-T r -S 64 -C 100", has("custom "))
	// All of its own sizes, up to 100,000 messages of each: minutes on a busy machine. -S all is
	// seven times as long.
	same("rstream", "-b SERVER", "-s SERVER", "", has("64_lat", "4k_lat", "64k_bw", "1m_bw"),
		func(c *Case) { c.Limit = longCaseTime })
	rsocket("riostream", "-S 3000 -C 50 -I 4", quick)
	rsocket("riostream", "-S 100000 -C 10 -I 2", v6)
	rsocket("riostream", "-S 1048576 -C 4 -T b")
	// Its server goes on for ever. All of its own sizes would be ten million messages.
	udpong := func(args string, more ...func(*Case)) {
		same("udpong", "-b SERVER", "-s SERVER", args, has("custom "), append(more, stays)...)
	}
	udpong("-S 1000 -C 100 -T e", quick, one)
	udpong("-S 2000 -C 50 -T e -T a", v6)
	udpong("-S 1400 -C 1000 -T b", one)
	udpong("-S 100 -C 1000 -T a")
	add("rcopy", "rcopy /usr/bin/rcopy SERVER:/tmp/rcopy-COPY", "", has("bytes in"), stays)
	same("cmtime", "-b SERVER", "-s SERVER", "-c 50", has("disconnect"),
		func(c *Case) { c.Stays, c.Suites = true, []string{"bookworm"} })
	same("cmtime", "-b SERVER", "-s SERVER", "-c 50 -q 100000", has("disconnect"),
		func(c *Case) { c.Suites = []string{"trixie"} })
	return all
}
