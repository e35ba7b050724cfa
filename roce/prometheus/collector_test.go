package prometheus_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce"
	rocemetrics "github.com/goroce/goroce/roce/prometheus"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func open(t *testing.T, addr string) *verbs.Device {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr(addr)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Two devices in one registry, and values that move.
func TestCollector(t *testing.T) {
	a, b := open(t, "127.77.4.1"), open(t, "127.77.4.2")
	registry := prometheus.NewPedanticRegistry()
	for _, d := range []*verbs.Device{a, b} {
		if err := registry.Register(rocemetrics.NewCollector(d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := registry.Register(rocemetrics.NewCollector(a)); err == nil {
		t.Error("one device was registered twice")
	}
	ctx := context.Background()
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: b}}
	l, err := lc.Listen(ctx, "127.77.4.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error { return c.Wait(ctx) }) }()
	c, err := (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: a}}).DialAddr(ctx, l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(ctx, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP roce_connections open connections of package roce
# TYPE roce_connections gauge
roce_connections{device="127.77.4.1",port="1"} 1
roce_connections{device="127.77.4.2",port="1"} 1
# HELP roce_retry_exceeded_err_total queue pairs that failed with WCRetryExcErr
# TYPE roce_retry_exceeded_err_total counter
roce_retry_exceeded_err_total{device="127.77.4.1",port="1"} 0
roce_retry_exceeded_err_total{device="127.77.4.2",port="1"} 0
`), "roce_connections", "roce_retry_exceeded_err_total"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Error(err, problems)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := registry.Gather(); err != nil {
		t.Error("of a device that is closed:", err)
	}
}

// A page of metrics for the device that Dial and Listen use.
func ExampleNewCollector() {
	d, err := roce.DefaultDevice(netip.MustParseAddr("127.77.4.3"))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(rocemetrics.NewCollector(d))

	page := httptest.NewRecorder() // in a program: http.Handle("/metrics", ...)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "roce_rcvd_pkts_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// roce_rcvd_pkts_total{device="127.77.4.3",port="1"} 0
}
