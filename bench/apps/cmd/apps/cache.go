package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/bench/apps/cache"
	"github.com/goroce/goroce/roce"
)

// cacheWays are the ways to get an entry that are compared.
var cacheWays = []string{"read", "message", "tcp"}

func cacheMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("cache", flag.ContinueOnError)
	clients := f.Int("clients", 4, "client processes")
	keys := f.Int("keys", 10000, "entries")
	bytes := f.Int("bytes", 64, "size of a value")
	seconds := f.Float64("seconds", 2, "how long to measure")
	rounds := f.Int("rounds", 3, "how often, the ways in turn; the median counts")
	serve := f.String("serve", "", "be the server, at this address (RoCE and TCP)")
	client := f.String("client", "", "be a client of this server")
	way := f.String("way", "read", "of a client: read, message or tcp")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case *serve != "":
		return cacheServer(ctx, *serve, *keys, *bytes)
	case *client != "":
		return cacheClient(ctx, *client, *way, *keys, *bytes, *seconds)
	}
	fmt.Printf("%d clients, %d entries of %d bytes, each client one GET at a time, median of %d rounds of %g s.\n\n",
		*clients, *keys, *bytes, *rounds, *seconds)
	fmt.Println("| GET by | GETs/s | p50 us | p99 us | CPU us of the server's process a GET | calls of the server's program | CPU us of all a GET |\n|---|---|---|---|---|---|---|")
	results := map[string][]cacheResult{}
	for range *rounds {
		for _, way := range cacheWays {
			r, err := cacheMeasure(ctx, way, *clients, *keys, *bytes, *seconds)
			if err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			results[way] = append(results[way], r)
		}
	}
	for _, way := range cacheWays {
		of := func(f func(cacheResult) float64) float64 {
			var all []float64
			for _, r := range results[way] {
				all = append(all, f(r))
			}
			return median(all)
		}
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.1f | %.0f | %.1f |\n", way,
			of(func(r cacheResult) float64 { return r.Rate }), of(func(r cacheResult) float64 { return r.P50 }),
			of(func(r cacheResult) float64 { return r.P99 }), of(func(r cacheResult) float64 { return r.Server }),
			of(func(r cacheResult) float64 { return float64(r.Calls) }),
			of(func(r cacheResult) float64 { return r.All }))
	}
	return nil
}

// cacheResult is what was measured: GETs a second, and microseconds.
type cacheResult struct {
	Rate, P50, P99, Server, All float64
	Calls                       int // GETs that the server's program has answered
	Gets                        int
}

// cacheServer serves until its standard input ends. It says when it is ready, and at the end how
// many GETs it has answered.
func cacheServer(ctx context.Context, addr string, keys, bytes int) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	d, err := roce.DefaultDevice(at.Addr())
	if err != nil {
		return err
	}
	s, err := cache.Listen(ctx, d, addr, keys/2) // it grows once or twice
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go s.Serve(ctx)
	go s.ServeTCP(l)
	cl := cache.Dial(nil, addr)
	for i := range keys {
		if err := cl.Put(ctx, cacheKey(i), make([]byte, bytes)); err != nil {
			return err
		}
	}
	if err := cl.Close(); err != nil {
		return err
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf(cacheServed, s.Stats().Gets)
	l.Close()
	return s.Close()
}

func cacheKey(i int) []byte { return fmt.Appendf(nil, "key %08d", i) }

// cacheClient gets entries for some time and prints what that took.
func cacheClient(ctx context.Context, addr, way string, keys, bytes int, seconds float64) error {
	var get func(b, key []byte) ([]byte, error)
	if way == "tcp" {
		c, err := cache.DialTCP(ctx, addr)
		if err != nil {
			return err
		}
		defer c.Close()
		get = c.Get
	} else {
		c := cache.Dial(nil, addr)
		defer c.Close()
		get = func(b, key []byte) ([]byte, error) { return c.Get(ctx, b, key) }
		if way == "message" {
			get = func(b, key []byte) ([]byte, error) { return c.GetByMessage(ctx, b, key) }
		}
	}
	var took []time.Duration
	var b []byte
	for begin := time.Now(); time.Since(begin).Seconds() < seconds; {
		at := time.Now()
		v, err := get(b[:0], cacheKey(rand.N(keys)))
		if err != nil {
			return err
		}
		if len(v) != bytes {
			return fmt.Errorf("a value of %d bytes", len(v))
		}
		b = v
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	us := func(p float64) float64 { return float64(took[int(p*float64(len(took)))].Nanoseconds()) / 1e3 }
	_, err := fmt.Printf(cacheSays, len(took), float64(len(took))/seconds, us(0.5), us(0.99))
	return err
}

// What a client and a server say; times are microseconds.
const (
	cacheSays   = "%d GETs, %f a second, p50 %f us, p99 %f us\n"
	cacheServed = "%d GETs came to this program\n"
)

// cacheMeasure runs a server and its clients once. Percentiles are the median client's.
func cacheMeasure(ctx context.Context, way string, clients, keys, bytes int,
	seconds float64) (r cacheResult, err error) {
	addrs, err := freePorts(1)
	if err != nil {
		return r, err
	}
	server, in, out, err := startPiped(ctx, "cache", "-serve", addrs[0], "-keys", fmt.Sprint(keys), "-bytes",
		fmt.Sprint(bytes))
	if err != nil {
		return r, err
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		_, e := server.wait()
		return r, errors.Join(fmt.Errorf("the server says %q", line), err, e)
	}
	before := cpuOfProcess(server.cmd.Process.Pid)
	var all []*child
	for range clients {
		c, err := start(ctx, "cache", "-client", addrs[0], "-way", way, "-keys", fmt.Sprint(keys), "-bytes",
			fmt.Sprint(bytes), "-seconds", fmt.Sprint(seconds))
		if err != nil {
			return r, err
		}
		all = append(all, c)
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	var p50, p99 []float64
	var cpu time.Duration
	for _, c := range all {
		wait.Go(func() {
			text, e := c.wait()
			mu.Lock()
			defer mu.Unlock()
			var one cacheResult
			if e == nil {
				_, e = fmt.Sscanf(text, cacheSays, &one.Gets, &one.Rate, &one.P50, &one.P99)
			}
			err = errors.Join(err, e)
			r.Rate += one.Rate
			r.Gets += one.Gets
			p50, p99 = append(p50, one.P50), append(p99, one.P99)
			cpu += c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
		})
	}
	wait.Wait()
	if err != nil {
		return r, err
	}
	used := cpuOfProcess(server.cmd.Process.Pid) - before
	r.P50, r.P99 = median(p50), median(p99)
	r.Server = float64(used.Microseconds()) / float64(r.Gets)
	r.All = float64((used + cpu).Microseconds()) / float64(r.Gets)
	in.Close()
	if _, err := fmt.Fscanf(lines, cacheServed, &r.Calls); err != nil {
		return r, err
	}
	_, err = server.wait()
	return r, err
}
