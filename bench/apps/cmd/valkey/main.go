// Command valkey measures GET and SET of a valkey server over RDMA and over TCP, in turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/bench/apps/valkey"
)

func main() {
	rdma := flag.String("rdma", "127.0.0.1:6379", "address of the server's RDMA module")
	tcp := flag.String("tcp", "127.0.0.1:6379", "its address of TCP")
	size := flag.Int("size", 64, "bytes of a value")
	each := flag.Duration("for", 2*time.Second, "how long each is measured")
	turns := flag.Int("turns", 5, "how often; the table has the medians")
	flag.Parse()
	if err := run(*rdma, *tcp, *size, *each, *turns); err != nil {
		fmt.Fprintln(os.Stderr, "valkey:", err)
		os.Exit(1)
	}
}

func run(rdma, tcp string, size int, each time.Duration, turns int) error {
	ctx := context.Background()
	ways := []func() (net.Conn, error){
		func() (net.Conn, error) { return valkey.Dial(ctx, rdma) },
		func() (net.Conn, error) { return net.Dial("tcp", tcp) },
	}
	value := make([]byte, size)
	fmt.Println("| requests a second | RDMA | TCP | ratio |\n|---|---|---|---|")
	for _, n := range []int{1, 16} {
		var conns [2][]*valkey.Client
		for i, dial := range ways {
			for range n {
				c, err := dial()
				if err != nil {
					return err
				}
				defer c.Close()
				conns[i] = append(conns[i], valkey.NewClient(c))
			}
		}
		for _, cmd := range [][][]byte{{[]byte("SET"), []byte("goroce"), value}, {[]byte("GET"), []byte("goroce")}} {
			var rates [2][]float64
			for range turns {
				for i := range ways {
					r, err := measure(conns[i], cmd, each)
					if err != nil {
						return err
					}
					rates[i] = append(rates[i], r)
				}
			}
			a, b := median(rates[0]), median(rates[1])
			fmt.Printf("| %s of %d bytes, connections: %d | %.0f | %.0f | %.2f |\n", cmd[0], size, n, a, b, a/b)
		}
	}
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// measure has all clients repeat a command, each when it has the reply, and returns the requests a
// second of all.
func measure(clients []*valkey.Client, cmd [][]byte, each time.Duration) (float64, error) {
	var wg sync.WaitGroup
	counts, errs := make([]int, len(clients)), make([]error, len(clients))
	start := time.Now()
	for i, c := range clients {
		wg.Go(func() {
			for time.Since(start) < each && errs[i] == nil {
				if _, errs[i] = c.Do(cmd...); errs[i] == nil {
					counts[i]++
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for i, n := range counts {
		if errs[i] != nil {
			return 0, errs[i]
		}
		total += n
	}
	return float64(total) / time.Since(start).Seconds(), nil
}
