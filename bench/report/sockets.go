package report

import "fmt"

// What is measured of sockets, which are the names of cases too.
const (
	SocketDownload = "HTTP/1.1, download of 64 MiB"
	SocketStream   = "stream, writes of 1 MiB"
)

// SocketHTTP is the name for requests of n clients.
func SocketHTTP(n int) string {
	if n == 1 {
		return "HTTP/1.1, 1 client"
	}
	return fmt.Sprintf("HTTP/1.1, %d clients", n)
}

// SocketMessages is the name for requests and answers over n connections of package roce.
func SocketMessages(n int) string {
	if n == 1 {
		return "roce.Conn, 1 connection"
	}
	return fmt.Sprintf("roce.Conn, %d connections", n)
}

// socketAims are those of streams: a program that takes rsocket for TCP is to lose nothing.
func socketAims(add func(link, what string, of func(*Report) float64, less bool, goal float64)) {
	for _, link := range []string{"udp", "packet"} {
		for _, op := range []string{SocketHTTP(1), SocketHTTP(16), SocketHTTP(100), SocketMessages(1),
			SocketMessages(16), SocketDownload, SocketStream} {
			of := func(figure string) func(*Report) float64 {
				return pick("sockets", figure, func(c *Case) bool { return c.Op == op && c.Link == link })
			}
			what, by := "goodput", "rsocket, "
			if op == SocketMessages(1) || op == SocketMessages(16) {
				by = "" // the name says it
			}
			if op != SocketDownload && op != SocketStream {
				what = "requests"
			}
			add(link, fmt.Sprintf("%s%s, %s: %s x TCP", by, op, link, what), of("x TCP"), false, 1)
			add(link, fmt.Sprintf("%s%s, %s: CPU x TCP", by, op, link), of("CPU x TCP"), true, 1.2)
		}
	}
}

func (r *Report) sockets(p printer) {
	if len(r.Of("sockets")) == 0 {
		return
	}
	p(`
## Sockets

The same program with rsocket.Dial and Listen, and with those of package net: net/http's client and server with keep-alive and
an answer of 128 B, each client on a connection of its own; one client that downloads 64 MiB (http.ServeContent), read
64 KiB at a time; and a stream of writes of 1 MiB, read 1 MiB at a time. Then roce.Conn: Send and Recv of 128 B, answered by as many, one at a
time on each connection; by TCP one write and one read of 128 B each. Both have their default buffers. CPU is of
both processes, in us a request or in s/GB; with what net/http itself takes.

| | rsocket | TCP | x TCP | CPU | TCP CPU | CPU x TCP |
|---|---|---|---|---|---|---|`)
	for _, c := range r.Of("sockets") {
		own := "requests"
		if c.Get(own) == nil {
			own = "goodput"
		}
		unit := ""
		if f := c.Get(own); f != nil {
			unit = " " + f.Unit
		}
		p("| %s | %s%s | %s%s | %s | %s | %s | %s |", c.Name, num(c.Value(own)), unit, num(c.Value("TCP")),
			unit, c.ranged("x TCP"), num(c.Value("CPU")), num(c.Value("TCP CPU")), c.ranged("CPU x TCP"))
	}
}
