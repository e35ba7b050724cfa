package rsocket

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/stretchr/testify/require"
)

// bothWays is how much each end writes in TestExitAfterClose.
const bothWays = 8 << 20

// Two processes write 8 MiB to each other at the same time, and end when they have written and read
// all, or one of them when it has written all. They know nothing but Close, and nothing is lost.
func TestExitAfterClose(t *testing.T) {
	if at := os.Getenv("GOROCE_TEST_PEER"); at != "" {
		exitAfterClose(at)
	}
	if testing.Short() || seeds.Race {
		t.Skip("other processes, whose races are not seen")
	}
	for _, read := range []bool{true, false} {
		t.Run(fmt.Sprint("reads=", read), func(t *testing.T) {
			l, err := Listen(testContext(t), "tcp", rocetest.Loopback4().String()+":0")
			require.NoError(t, err)
			defer l.Close()
			cmd := exec.Command(os.Args[0], "-test.run=^TestExitAfterClose$")
			cmd.Env = append(os.Environ(), "GOROCE_TEST_PEER="+l.Addr().String(),
				fmt.Sprint("GOROCE_TEST_READS=", read))
			var said strings.Builder
			cmd.Stderr = &said
			require.NoError(t, cmd.Start())
			s, err := l.AcceptConn()
			require.NoError(t, err)
			wrote := make(chan error, 1)
			go func() {
				if !read {
					wrote <- nil
					return
				}
				_, err := s.Write(pattern(2))
				if err == nil {
					err = s.CloseWrite()
				}
				wrote <- err
			}()
			got, err := io.ReadAll(s)
			require.NoError(t, err)
			require.True(t, bytes.Equal(pattern(1), got), len(got))
			require.NoError(t, <-wrote)
			require.NoError(t, s.Close())
			require.NoError(t, cmd.Wait(), said.String())
		})
	}
}

func pattern(seed uint64) []byte { return randomBytes(seed, bothWays) }

// exitAfterClose is the other process.
func exitAfterClose(at string) {
	if err := peerOfExit(at, os.Getenv("GOROCE_TEST_READS") == "true"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func peerOfExit(at string, read bool) error {
	nc, err := DialContext(context.Background(), "tcp", at)
	if err != nil {
		return err
	}
	c := nc.(*Conn)
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(pattern(1))
		if err == nil && read {
			err = c.CloseWrite()
		}
		wrote <- err
	}()
	if read {
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, pattern(2)) {
			return fmt.Errorf("%d bytes: %w", len(got), err)
		}
	}
	if err := <-wrote; err != nil {
		return err
	}
	return c.Close()
}
