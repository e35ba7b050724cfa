package docs

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/roce"
)

// guide: begin memory
// serveTable lends its clients a table. Its program does nothing for what they do with it.
func serveTable(ctx context.Context, l *roce.Listener, table []byte) error {
	return l.Serve(ctx, roce.SharedMemory(table, roce.RemoteRead|roce.RemoteWrite|roce.RemoteAtomic))
}

func useTable(ctx context.Context, addr string) (ticket uint64, entry []byte, err error) {
	c, err := roce.Dial(ctx, addr)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	table, err := c.Shared(ctx)
	if err != nil {
		return 0, nil, err
	}
	if ticket, err = c.FetchAdd(ctx, table, 1); err != nil { // of the first 8 bytes
		return 0, nil, err
	}
	place := table.Slice(64, 16) // a call that goes beyond it is refused here
	if err = c.Write(ctx, []byte("sixteen bytes..."), place); err != nil {
		return 0, nil, err
	}
	entry = make([]byte, 16)
	return ticket, entry, c.Read(ctx, entry, place)
}

// guide: end

func Example_memory() {
	ctx := context.Background()
	l := must(roce.Listen(ctx, "127.77.8.2:0"))
	defer l.Close()
	go func() { _ = serveTable(ctx, l, make([]byte, 4096)) }()
	for range 2 {
		ticket, entry, err := useTable(ctx, l.Addr().String())
		fmt.Println(ticket, string(entry), err)
	}
	// Output:
	// 0 sixteen bytes... <nil>
	// 1 sixteen bytes... <nil>
}

// guide: begin registered
// upload writes a large piece of memory without copying it, in parts that are under way at the
// same time.
func upload(ctx context.Context, c *roce.Conn, data []byte, to roce.RemoteMemory) error {
	mr, err := c.Register(data, 0) // once for data that is sent often
	if err != nil {
		return err
	}
	defer mr.Close()
	const part = 1 << 20
	var parts []*roce.Pending
	for off := 0; off < len(data); off += part {
		n := min(part, len(data)-off)
		p, err := c.StartWrite(ctx, to.Slice(off, n), mr.SGE(off, n)) // waits only while the send queue is full
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	for _, p := range parts {
		if err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// guide: end

func Example_registered() {
	ctx := context.Background()
	l := must(roce.Listen(ctx, "127.77.8.3:0"))
	defer l.Close()
	memory := make([]byte, 3<<20)
	go func() { _ = serveTable(ctx, l, memory) }()
	c := must(roce.Dial(ctx, l.Addr().String()))
	defer c.Close()
	table := must(c.Shared(ctx))
	data := make([]byte, len(memory))
	data[0], data[len(data)-1] = 'a', 'z'
	fmt.Println(upload(ctx, c, data, table))
	back := make([]byte, len(data))
	fmt.Println(c.Read(ctx, back, table), back[0] == 'a', back[len(back)-1] == 'z')
	// Output:
	// <nil>
	// <nil> true true
}
