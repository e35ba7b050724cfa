package roce_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/goroce/goroce/roce"
)

// pairOf runs one function at each end of a connection, and waits for both.
func pairOf(addr string, server, client func(ctx context.Context, c *roce.Conn) error) {
	ctx := context.Background()
	l, err := roce.Listen(ctx, addr)
	check(err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err == nil {
			err = errors.Join(server(ctx, c), c.Close())
		}
		done <- err
	}()
	c, err := roce.Dial(ctx, l.Addr().String())
	check(err)
	check(client(ctx, c))
	check(<-done)
	check(c.Close())
}

// A ring: the client writes records into memory of the server, one behind the other, and tells the
// length of each by the immediate value. Both count where the next one is. An answer gives the
// space of a record back, so that the client never writes where something was not read yet.
func Example_ring() {
	const size = 64
	next := func(at, n int) int { // where a record of n bytes is: at the start, if it would reach beyond the end
		if at+n > size {
			return 0
		}
		return at
	}
	server := func(ctx context.Context, c *roce.Conn) error {
		ring, err := c.Share(ctx, make([]byte, size), roce.RemoteWrite)
		if err != nil {
			return err
		}
		at := 0
		for range 4 {
			m, err := c.RecvMsg(ctx) // by then the record is in the ring, all of it
			if err != nil {
				return err
			}
			n := int(m.Imm)
			at = next(at, n)
			fmt.Printf("at %d: %s\n", at, ring.Bytes()[at:at+n])
			at += n
			if err := errors.Join(m.Release(), c.Send(ctx, []byte{1})); err != nil {
				return err
			}
		}
		return nil
	}
	client := func(ctx context.Context, c *roce.Conn) error {
		ring, err := c.Shared(ctx)
		if err != nil {
			return err
		}
		mirror, err := c.Register(make([]byte, size), 0) // what is on its way must not change
		if err != nil {
			return err
		}
		at, unanswered := 0, 0
		answer := func() error {
			unanswered--
			_, err := c.Recv(ctx, make([]byte, 1))
			return err
		}
		for _, record := range []string{"first", "second, which is longer", "third, which is longer still",
			"fourth: from the start"} {
			n := len(record)
			if next(at, n) == 0 { // round again: all that is there must have been read
				for unanswered > 0 {
					if err := answer(); err != nil {
						return err
					}
				}
			}
			at = next(at, n)
			copy(mirror.Bytes()[at:], record)
			if _, err := c.StartWriteImm(ctx, ring.Slice(at, n), uint32(n), mirror.SGE(at, n)); err != nil {
				return err
			}
			at += n
			unanswered++
		}
		for unanswered > 0 {
			if err := answer(); err != nil {
				return err
			}
		}
		return nil
	}
	pairOf("127.77.1.1:0", server, client)
	// Output:
	// at 0: first
	// at 5: second, which is longer
	// at 28: third, which is longer still
	// at 0: fourth: from the start
}

// A versioned READ: the server changes a record at any time, and clients read it without its
// program. A READ that meets a change may get some of the old record and some of the new one, which
// the checksum shows: read again.
func Example_versionedRead() {
	encode := func(version uint64, text string) []byte {
		b := binary.LittleEndian.AppendUint64(make([]byte, 4, 32), version)
		b = append(b, text...)
		b = b[:32] // a record has one size
		binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
		return b
	}
	decode := func(b []byte) (version uint64, text string, whole bool) {
		return binary.LittleEndian.Uint64(b[4:]), string(b[12:17]),
			crc32.ChecksumIEEE(b[4:]) == binary.LittleEndian.Uint32(b)
	}
	server := func(ctx context.Context, c *roce.Conn) error {
		record, err := c.Share(ctx, encode(1, "older"), roce.RemoteRead)
		if err != nil {
			return err
		}
		if _, err := c.Recv(ctx, make([]byte, 8)); err != nil { // the client has read that
			return err
		}
		// WriteAt changes the record between two packets of the device, never in one.
		if _, err := record.WriteAt(encode(2, "newer"), 0); err != nil {
			return err
		}
		return errors.Join(c.Send(ctx, nil), c.Wait(ctx))
	}
	client := func(ctx context.Context, c *roce.Conn) error {
		record, err := c.Shared(ctx)
		if err != nil {
			return err
		}
		b := make([]byte, 32)
		for range 2 {
			for whole := false; !whole; {
				if err := c.Read(ctx, b, record); err != nil {
					return err
				}
				var version uint64
				var text string
				if version, text, whole = decode(b); whole {
					fmt.Printf("version %d: %s\n", version, text)
				}
			}
			if binary.LittleEndian.Uint64(b[4:]) == 1 {
				if err := c.Send(ctx, []byte("change")); err != nil {
					return err
				}
				if _, err := c.Recv(ctx, b); err != nil {
					return err
				}
			}
		}
		return c.Close()
	}
	pairOf("127.77.1.2:0", server, client)
	// Output:
	// version 1: older
	// version 2: newer
}

// lease is the word by which clients agree who may do something: in the upper half a number that
// grows with every step, in the lower who holds it, 0 for nobody.
type lease struct {
	c    *roce.Conn
	word roce.RemoteMemory
	me   uint32
	mine uint64 // what the word is while we hold it
}

// take takes the lease if the word still is what was seen: free, or of a holder that is taken for
// dead.
func (l *lease) take(ctx context.Context, seen uint64) (bool, error) {
	l.mine = (seen>>32+1)<<32 | uint64(l.me)
	had, err := l.c.CompareSwap(ctx, l.word, seen, l.mine)
	return err == nil && had == seen, err
}

// renew says that the holder lives. False is that another one has taken it for dead: it no longer
// holds it.
func (l *lease) renew(ctx context.Context) (bool, error) { return l.take(ctx, l.mine) }

// look returns the word.
func (l *lease) look(ctx context.Context) (uint64, error) {
	var b [8]byte
	err := l.c.Read(ctx, b[:], l.word)
	return binary.NativeEndian.Uint64(b[:]), err
}

// A lease by CMP_SWAP: a holder that has died does not keep it for ever. A holder renews it: the
// number in the word grows. A client that sees no change for as long as a lease lasts, by its own
// clock, takes it over. No clocks are compared, and a holder that was only slow finds out when it
// renews. What it does under the lease carries the number (a fence): the receiver refuses what is
// late.
func Example_lease() {
	memory := make([]byte, 8)
	server := func(ctx context.Context, c *roce.Conn) error {
		_, err := c.Share(ctx, memory, roce.RemoteAtomic|roce.RemoteRead)
		return errors.Join(err, c.Wait(ctx))
	}
	client := func(ctx context.Context, c *roce.Conn) error {
		word, err := c.Shared(ctx)
		if err != nil {
			return err
		}
		// Two clients; here they share a connection.
		slow, patient := &lease{c: c, word: word, me: 1}, &lease{c: c, word: word, me: 2}
		got, err := slow.take(ctx, 0)
		fmt.Println("client 1 has it:", got, err)
		got, err = patient.take(ctx, 0)
		fmt.Println("client 2 has it:", got, err)
		seen, err := patient.look(ctx)
		if err != nil {
			return err
		}
		got, err = slow.renew(ctx)
		fmt.Println("client 1 still has it:", got, err)
		got, err = patient.take(ctx, seen)
		fmt.Println("client 2 takes over, too early:", got, err)
		if seen, err = patient.look(ctx); err != nil { // and now nothing changes for a whole lease
			return err
		}
		got, err = patient.take(ctx, seen)
		fmt.Println("client 2 takes over:", got, err)
		got, err = slow.renew(ctx)
		fmt.Println("client 1 still has it:", got, err)
		return c.Close()
	}
	pairOf("127.77.1.3:0", server, client)
	// Output:
	// client 1 has it: true <nil>
	// client 2 has it: false <nil>
	// client 1 still has it: true <nil>
	// client 2 takes over, too early: false <nil>
	// client 2 takes over: true <nil>
	// client 1 still has it: false <nil>
}

// Credits: the receiver says how many messages it has room for, and the sender sends no more.
// Without them nothing is lost either, as a peer without a receive is asked again (RNR), but a
// stream stands still for the time that the receiver asks for, and all that is behind it on the
// connection, too.
func Example_credits() {
	const room, messages = 4, 10
	server := func(ctx context.Context, c *roce.Conn) error {
		for i := range messages {
			m, err := c.RecvMsg(ctx)
			if err != nil {
				return err
			}
			// ... the message is used here ...
			if err := m.Release(); err != nil {
				return err
			}
			if i%2 == 1 { // two at a time: half the messages
				if err := c.Send(ctx, []byte{2}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	client := func(ctx context.Context, c *roce.Conn) error {
		credits, waited := room, 0
		for i := range messages {
			for credits == 0 {
				var b [1]byte
				if _, err := c.Recv(ctx, b[:]); err != nil {
					return err
				}
				credits += int(b[0])
				waited++
			}
			credits--
			if err := c.Send(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
				return err
			}
		}
		for credits < room { // all of it was used
			var b [1]byte
			if _, err := c.Recv(ctx, b[:]); err != nil {
				return err
			}
			credits += int(b[0])
			waited++
		}
		fmt.Println("credits at the end:", credits, "in", waited, "messages")
		return nil
	}
	pairOf("127.77.1.4:0", server, client)
	// Output: credits at the end: 4 in 5 messages
}
