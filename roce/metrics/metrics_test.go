package metrics

import (
	"context"
	"encoding/json"
	"expvar"
	"reflect"
	"regexp"
	"testing"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Each field of Counters has one name, and its own value.
func TestEveryCounter(t *testing.T) {
	all := append(append([]counter{}, hwCounters...), moreCounters...)
	typ := reflect.TypeFor[verbs.Counters]()
	require.Len(t, all, typ.NumField())
	for i := range all {
		var c verbs.Counters
		reflect.ValueOf(&c).Elem().Field(i).SetUint(uint64(i) + 1)
		require.EqualValues(t, i+1, all[i].value(&c), "%s is not %s", all[i].name, typ.Field(i).Name)
	}
	// Those of drivers/infiniband/sw/rxe/rxe_hw_counters.c, in its order.
	var names []string
	for _, c := range hwCounters {
		names = append(names, c.name)
	}
	require.Equal(t, []string{
		"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err",
		"send_rnr_err", "rcvd_seq_err", "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err",
		"completer_retry_err", "send_err", "link_downed", "rdma_sends",
		"rdma_recvs", "sent_bytes", "rcvd_bytes",
	}, names)
}

func TestRead(t *testing.T) {
	ctx := rocetest.Context(t)
	d := rocetest.OpenDevice(t, verbs.Config{})
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d}}
	l, err := lc.Listen(ctx, d.Addrs()[0].String()+":0")
	require.NoError(t, err)
	defer l.Close()
	go func() { _ = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error { return c.Wait(ctx) }) }()
	c, err := (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}}).DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	require.NoError(t, c.Send(ctx, make([]byte, 1000)))
	values := map[string]uint64{}
	for _, m := range Read(d) {
		require.NotContains(t, values, m.Name, "twice")
		require.Regexp(t, regexp.MustCompile(`^[a-z][a-z_]*$`), m.Name)
		require.NotEmpty(t, m.Help, m.Name)
		values[m.Name] = m.Value
	}
	require.EqualValues(t, 2, values["connections"], "both ends")
	require.EqualValues(t, 1, values["cm_listeners"])
	require.EqualValues(t, 1, values["port_active"])
	require.EqualValues(t, d.Port().ActiveMTU.Bytes(), values["port_mtu"])
	require.NotZero(t, values["cm_connections"])
	require.NotZero(t, values["protection_domains"])
	require.Greater(t, values["sent_bytes"], uint64(1000))
	require.NoError(t, c.Close())

	Publish("TestRead", d)
	var published map[string]uint64
	require.NoError(t, json.Unmarshal([]byte(expvar.Get("TestRead").String()), &published))
	require.Len(t, published, len(values))
	require.GreaterOrEqual(t, published["sent_pkts"], values["sent_pkts"])
}
