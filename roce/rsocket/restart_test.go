package rsocket_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// webServer is another process, that answers until it is killed.
func webServer(t *testing.T, at netip.AddrPort) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPostAfterRestart$")
	cmd.Env = append(os.Environ(), "GOROCE_TEST_WEB="+at.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "serves\n", line)
	return cmd
}

// A server is killed and started anew, and a client that has kept its connection sends a POST at
// once: it goes on a new connection, as over TCP, because nothing of it was written to the old one.
func TestPostAfterRestart(t *testing.T) {
	if at, ok := os.LookupEnv("GOROCE_TEST_WEB"); ok {
		fmt.Fprintln(os.Stderr, serveWeb(netip.MustParseAddrPort(at)))
		os.Exit(1)
	}
	dev := device(t)
	there := dev.Addrs()[0].As4()
	there[3] += 1
	at := netip.AddrPortFrom(netip.AddrFrom4(there), 7471)
	tr := &http.Transport{DialContext: (&rsocket.Dialer{Device: dev}).DialContext}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	post := func(body string) error {
		resp, err := client.Post("http://"+at.String()+"/", "text/plain", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err == nil && string(got) != body {
			err = fmt.Errorf("%q came back", got)
		}
		return err
	}
	rsocket.Patient(t)
	// The last answer may have come a little after the client had read what it says.
	const tries, pause = 10, 100 * time.Millisecond
	srv := webServer(t, at)
	var err error
	for range tries {
		require.NoError(t, post("before"))
		for last := time.Now(); time.Since(last) < pause; {
			require.NoError(t, srv.Process.Kill())
			require.Error(t, srv.Wait())
			srv = webServer(t, at)
		}
		if err = post("after"); err == nil {
			break
		}
	}
	require.NoError(t, srv.Process.Kill())
	require.Error(t, srv.Wait())
	require.NoError(t, err)
}

func serveWeb(at netip.AddrPort) error {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{at.Addr()}})
	if err != nil {
		return err
	}
	l, err := (&rsocket.ListenConfig{Device: d}).ListenAddr(at)
	if err != nil {
		return err
	}
	fmt.Println("serves")
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body) // the client compares
	}))
}
