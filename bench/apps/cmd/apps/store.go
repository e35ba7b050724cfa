package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/bench/apps/store"
	"github.com/goroce/goroce/roce"
)

func storeMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("store", flag.ContinueOnError)
	blocks := f.Int("blocks", 1024, "blocks of 4096 bytes")
	serve := f.String("serve", "", "be a replica at this address, until its standard input ends")
	file := f.String("file", "", "of a replica: where its blocks are")
	replicas := f.String("replicas", "",
		"be a client of these replicas, with commas; without it and -serve: two replicas and a client on this machine")
	writers := f.Int("writers", 4,
		"goroutines of the client, each with blocks of its own: 3 of 4 operations are reads, every 16th is a flush")
	op := f.String("op", "mix", "what the client does: mix as said there, read or write")
	network := f.String("net", "",
		"of a client: roce (if not given) or tcp; without -replicas: one of them, or both in turn")
	seconds := f.Float64("seconds", 3, "how long the client goes on")
	kill := f.Int("kill", 0,
		"cut the power so many times: kill -9 replicas, the client, or all of them, and check what is there")
	forget := f.Bool("forget", false, "of a replica: keep only what was flushed when it is killed")
	journal := f.Uint64("journal", 0, "of a client: the so-many-th that says what it does, for -kill")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case *serve != "":
		return storeReplica(ctx, *serve, *file, *blocks, *forget)
	case *journal > 0:
		return storeJournal(ctx, strings.Split(*replicas, ","), *blocks, *writers, *journal)
	case *replicas != "":
		r, err := storeLoad(ctx, *network, strings.Split(*replicas, ","), *blocks, *writers, *op, *seconds)
		fmt.Print(r)
		return err
	case *kill > 0:
		return storeKill(ctx, *kill, min(*blocks, 64), *writers)
	}
	nets := []string{"roce", "tcp"}
	if *network != "" {
		nets = []string{*network}
	}
	for _, net := range nets {
		r, err := storeMeasure(ctx, net, *blocks, *writers, *op, *seconds)
		if err != nil {
			return err
		}
		fmt.Printf("%s:\n%sCPU of all for an operation: %.1f us\n", net, r.text, r.cpu)
	}
	return nil
}

// storeResult is what a client of two replicas did, of all operations if it did several, and what
// it says.
type storeResult struct {
	reportCell
	text string
}

// storeMeasure runs two replicas and a client on this machine.
func storeMeasure(ctx context.Context, net string, blocks, writers int, op string,
	seconds float64) (r storeResult, err error) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	addrs, err := freePorts(2)
	if err != nil {
		return r, err
	}
	var servers []*child
	var inputs []io.Closer
	for i, addr := range addrs {
		c, in, out, err := startPiped(ctx, "store", "-serve", addr, "-file",
			filepath.Join(dir, fmt.Sprint(i)), "-blocks", fmt.Sprint(blocks))
		if err != nil {
			return r, err
		}
		servers, inputs = append(servers, c), append(inputs, in)
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
			_, e := c.wait()
			return r, errors.Join(fmt.Errorf("a replica says %q", line), err, e)
		}
	}
	used := func() (all time.Duration) {
		for _, s := range servers {
			all += cpuOfProcess(s.cmd.Process.Pid)
		}
		return all
	}
	before := used()
	client, err := start(ctx, "store", "-replicas", strings.Join(addrs, ","), "-net", net, "-blocks",
		fmt.Sprint(blocks), "-writers", fmt.Sprint(writers), "-op", op, "-seconds", fmt.Sprint(seconds))
	if err != nil {
		return r, err
	}
	r.text, err = client.wait()
	cpu := used() - before + client.cmd.ProcessState.UserTime() + client.cmd.ProcessState.SystemTime()
	for _, in := range inputs {
		in.Close()
	}
	for _, s := range servers {
		_, e := s.wait()
		err = errors.Join(err, e)
	}
	if err != nil {
		return r, err
	}
	all := 0.
	for line := range strings.Lines(r.text) {
		what, said, _ := strings.Cut(line, ": ")
		var rate, p50 float64
		if _, err := fmt.Sscanf(said, storeSays, &rate, &p50); err != nil {
			return r, fmt.Errorf("a client says %q: %w", line, err)
		}
		all += rate
		if op == what {
			r.rate, r.p50 = rate, p50
		}
	}
	if op == "mix" {
		r.rate = all
	}
	r.cpu = float64(cpu.Microseconds()) / (all * seconds)
	return r, nil
}

func storeReplica(ctx context.Context, addr, file string, blocks int, forget bool) error {
	if file == "" {
		return errors.New("a replica needs -file")
	}
	open := store.OpenFile
	if forget {
		open = openCutDisk
	}
	disk, err := open(file, blocks)
	if err != nil {
		return err
	}
	var r *store.Replica
	for tries := 0; ; tries++ { // the port of a process that was just killed may be in use for a moment
		if r, err = store.Listen(ctx, nil, addr, disk); err == nil || tries == 50 ||
			!errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		wait(ctx, 20*time.Millisecond)
	}
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	var serving sync.WaitGroup
	serving.Go(func() { r.Serve(ctx) })
	serving.Go(func() { r.ServeTCP(l) })
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	err = errors.Join(l.Close(), r.Close())
	serving.Wait()
	return errors.Join(err, disk.Close())
}

// storeSays is how a client says how often it did something a second, and how long half of these
// took at most, in us.
const storeSays = "%f/s, p50 %f us"

// storeOpen opens a volume over RoCE or TCP.
func storeOpen(ctx context.Context, net string, addrs []string, blocks int) (*store.Volume, error) {
	switch net {
	case "tcp":
		return store.OpenTCP(ctx, addrs, blocks)
	case "", "roce":
	default:
		return nil, fmt.Errorf("no network %q: roce or tcp", net)
	}
	at, err := netip.ParseAddrPort(addrs[0])
	if err != nil {
		return nil, err
	}
	d, err := roce.DefaultDeviceFor(netip.Addr{}, at.Addr())
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, d, addrs, blocks)
}

// storeLoad reads and writes blocks and checks what it reads, for some time.
func storeLoad(ctx context.Context, net string, addrs []string, blocks, writers int, op string,
	seconds float64) (string, error) {
	v, err := storeOpen(ctx, net, addrs, blocks)
	if err != nil {
		return "", err
	}
	defer v.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	took := map[string][]time.Duration{}
	var failed error
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			mine := map[string][]time.Duration{}
			model := map[int]uint64{}
			b, want := make([]byte, store.BlockBytes), make([]byte, store.BlockBytes)
			fill := func(b []byte, block int, n uint64) {
				for i := 0; i < len(b); i += 16 {
					binary.BigEndian.PutUint64(b[i:], n)
					binary.BigEndian.PutUint64(b[i+8:], uint64(block))
				}
			}
			err := func() error {
				for n := uint64(1); ctx.Err() == nil; n++ {
					block := rand.N(max(blocks/writers, 1))*writers + w
					if block >= blocks {
						continue
					}
					begin, what := time.Now(), ""
					var err error
					last, known := model[block]
					switch {
					case op == "mix" && n%16 == 0:
						what, err = "flush", v.Flush(context.Background())
					case op == "write" || op == "mix" && n%4 == 0 || !known:
						fill(b, block, n)
						what, err = "write", v.WriteBlock(context.Background(), block, b)
						model[block] = n
					default:
						what, err = "read", v.ReadBlock(context.Background(), block, b)
						if fill(want, block, last); err == nil && !bytes.Equal(b, want) {
							err = fmt.Errorf("block %d is not what was written last", block)
						}
					}
					if err != nil {
						return err
					}
					mine[what] = append(mine[what], time.Since(begin))
				}
				return nil
			}()
			mu.Lock()
			defer mu.Unlock()
			for what, d := range mine {
				took[what] = append(took[what], d...)
			}
			if err != nil {
				failed = errors.Join(failed, err)
				stop()
			}
		})
	}
	begin := time.Now()
	wait(ctx, time.Duration(seconds*float64(time.Second)))
	stop()
	running.Wait()
	var b strings.Builder
	all := time.Since(begin).Seconds()
	for _, what := range []string{"read", "write", "flush"} {
		d := took[what]
		if len(d) == 0 {
			continue
		}
		slices.Sort(d)
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
		fmt.Fprintf(&b, "%s: %.0f/s, p50 %.1f us, p99 %.0f us\n", what, float64(len(d))/all, us(d[len(d)/2]),
			us(d[len(d)*99/100]))
	}
	return b.String(), failed
}
