package docs

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/auth"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/metrics"
	"github.com/goroce/goroce/roce/verbs"
)

// guide: begin shutdown
// runServer serves until a signal has come, and then ends what it has begun.
func runServer(ctx context.Context, l *roce.Listener, signals <-chan os.Signal) error {
	srv := &roce.Server{Handler: echo}
	down := make(chan error, 1)
	go func() {
		<-signals
		patience, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err := srv.Shutdown(patience)
		down <- errors.Join(err, srv.Close()) // what has not ended by then
	}()
	if err := srv.Serve(ctx, l); !errors.Is(err, roce.ErrServerClosed) {
		return err
	}
	return <-down
}

// guide: end

func Example_shutdown() {
	ctx := context.Background()
	l := must(roce.Listen(ctx, "127.77.8.5:0"))
	signals, done := make(chan os.Signal), make(chan error)
	go func() { done <- runServer(ctx, l, signals) }()
	fmt.Println(ask(ctx, l.Addr().String(), "hello"))
	signals <- os.Interrupt
	fmt.Println(<-done)
	// Output:
	// hello <nil>
	// <nil>
}

// guide: begin identity
// secrets are read from where your service keeps such, 16 random bytes or more each.
var secrets = map[string][]byte{"billing": []byte("sixteen bytes or more")}

var authenticated = auth.Handler(
	func(id string) []byte { return secrets[id] },
	func(ctx context.Context, c *roce.Conn, id string) error {
		return c.Send(ctx, []byte("hello, "+id)) // and whatever the service does
	})

func dialAs(ctx context.Context, addr, id string) (*roce.Conn, error) {
	c, err := roce.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := auth.Client(ctx, c, auth.Key{ID: id, Secret: secrets[id]}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// guide: end

func Example_identity() {
	ctx := context.Background()
	l := must(roce.Listen(ctx, "127.77.8.6:0"))
	defer l.Close()
	go func() { _ = l.Serve(ctx, authenticated) }()
	c := must(dialAs(ctx, l.Addr().String(), "billing"))
	defer c.Close()
	m := must(c.RecvMsg(ctx))
	fmt.Printf("%s\n", m.Bytes())
	// Output: hello, billing
}

// guide: begin again
// read is done again over a new connection if the one before has broken: it changes nothing, so
// that it does not matter whether the first one was carried out.
func read(ctx context.Context, addr string, b []byte, tries int) (err error) {
	for range tries {
		if err = readOnce(ctx, addr, b); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func readOnce(ctx context.Context, addr string, b []byte) error {
	c, err := roce.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	table, err := c.Shared(ctx) // the key is another one than before
	if err != nil {
		return err
	}
	return c.Read(ctx, b, table)
}

// guide: end

func Example_again() {
	ctx := context.Background()
	l := must(roce.Listen(ctx, "127.77.8.7:0"))
	defer l.Close()
	var broken atomic.Bool
	go func() {
		_ = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error {
			if !broken.Swap(true) { // the first connection
				return nil
			}
			return roce.SharedMemory([]byte("table"), roce.RemoteRead)(ctx, c)
		})
	}()
	b := make([]byte, 5)
	fmt.Println(read(ctx, l.Addr().String(), b, 3), string(b))
	// Output: <nil> table
}

// guide: begin device
// A device of the service's own: other buffers, and a log of its port.
func openDevice(addr netip.Addr) (*verbs.Device, error) {
	return verbs.Open(verbs.Config{
		Addrs:  []netip.Addr{addr},
		UDP:    udp.Options{SocketBufferBytes: 32 << 20},
		Spin:   -1, // do not spin: less CPU, later answers
		Logger: slog.Default(),
	})
}

func listenOn(ctx context.Context, d *verbs.Device, addr string) (*roce.Listener, error) {
	lc := roce.ListenConfig{
		ConnConfig: roce.ConnConfig{
			Device: d, RecvBytes: 64 << 10, RecvDepth: 64,
			KeepAlive: 5 * time.Second, Logger: slog.Default(),
		},
		MaxConns: 1000,
	}
	return lc.Listen(ctx, addr)
}

// guide: end

// guide: begin observe
func observe(d *verbs.Device, c *roce.Conn) {
	metrics.Publish("roce", d) // a page of JSON at /debug/vars; for Prometheus there is the module roce/prometheus
	s := c.Stats()
	slog.Info("connection", "state", s.State, "sent", s.SentBytes, "again", s.RetransmittedPkts, "rtt", s.SmoothedRTT)
	for _, c := range roce.Conns(d) {
		slog.Info("open", "peer", c.RemoteAddr(), "waiting", c.Stats().Waiting)
	}
}

// guide: end

func Example_observe() {
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer slog.SetDefault(old)
	ctx := context.Background()
	d := must(openDevice(netip.MustParseAddr("127.77.8.8")))
	defer d.Close()
	l := must(listenOn(ctx, d, "127.77.8.8:0"))
	defer l.Close()
	go func() { _ = l.Serve(ctx, echo) }()
	c := must((&roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}}).DialAddr(ctx, l.Addr()))
	defer c.Close()
	fmt.Println(c.MaxMessage())
	observe(d, c)
	var values map[string]uint64
	fmt.Println(json.Unmarshal([]byte(expvar.Get("roce").String()), &values), values["connections"])
	// Output:
	// 65536
	// <nil> 2
}
