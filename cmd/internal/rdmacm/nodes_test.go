package rdmacm

import (
	"context"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

func TestEndpoint(t *testing.T) {
	s, c := pair(t, nil, "rdma_server", "-s LOCAL", "rdma_client", "-s SERVER --addr LOCAL")
	require.Equal(t, "rdma_server: start\nrdma_server: end 0\n", s.stdout.String())
	require.Equal(t, "rdma_client: start\nrdma_client: end 0\n", c.stdout.String())
	pair(t, toolcheck.Shared6(t), "rdma_server", "-s :: -p 7472", "rdma_client", "-s SERVER -p PORT")
}

func TestCmatose(t *testing.T) {
	for _, args := range []string{"", "-c 7 -C 3 -S 10000", "-C 0", "-S 0 -c 3", "-m -c 2", "-P ib -p 7000",
		"-t 32 -a 14 -f ip"} {
		t.Run(args, func(t *testing.T) {
			s, c := pair(t, nil, "ucmatose", "-b LOCAL "+args, "ucmatose", "-s SERVER -b LOCAL "+args)
			for _, e := range []*end{s, c} {
				out := e.stdout.String()
				require.True(t, strings.HasSuffix(out, "test complete\nreturn status 0\n"), out)
				require.Equal(t, !strings.Contains(args, "-C 0") && !strings.Contains(args, "-S 0"),
					strings.Contains(out, "data transfers complete"))
				require.Equal(t, strings.Contains(args, "-m"), strings.Contains(out, "migrating"))
			}
		})
	}
	pair(t, toolcheck.Shared6(t), "ucmatose", "-b :: -c 3", "ucmatose", "-s SERVER -c 3")
}

func TestUdaddy(t *testing.T) {
	for _, args := range []string{"", "-c 5 -C 20 -S 1000", "-C 0", "-P udp -t 8 -p 0x111"} {
		t.Run(args, func(t *testing.T) {
			s, c := pair(t, nil, "udaddy", "-b LOCAL "+args, "udaddy", "-s SERVER -b LOCAL "+args)
			for _, e := range []*end{s, c} {
				require.True(t, strings.HasSuffix(e.stdout.String(), "test complete\nreturn status 0\n"),
					e.stdout.String())
			}
		})
	}
	pair(t, toolcheck.Shared6(t), "udaddy", "-b ::", "udaddy", "-s SERVER")
}

func TestMckey(t *testing.T) {
	for name, args := range map[string]string{"receive": "", "send only": "-o"} {
		t.Run(name, func(t *testing.T) {
			s, c := pair(t, nil, "mckey", "-m 239.1.2.3 -b LOCAL -S 1000 -c 2 --pause 0", "mckey",
				"-m 239.1.2.3 -b LOCAL -s -S 1000 --pause 0 "+args)
			for _, e := range []*end{s, c} {
				require.Contains(t, e.stdout.String(), "mckey: joined dgid: ::ffff:239.1.2.3 ")
				require.True(t, strings.HasSuffix(e.stdout.String(), "test complete\nreturn status 0\n"),
					e.stdout.String())
			}
		})
	}
}

// Nobody listens: the tools say so and give the reason of the refusal.
func TestRefused(t *testing.T) {
	at := toolcheck.Addr(t).String()
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := startServer(t, ctx, nil, "rdma_server", "-p 7999 -s "+at)
	for _, c := range []struct {
		name, want, stdout string
	}{
		{"rdma_client", "RDMA_CM_EVENT_REJECTED, error: 8", ""},
		{"ucmatose", "RDMA_CM_EVENT_REJECTED, error: 8",
			"cmatose: event: RDMA_CM_EVENT_REJECTED, error: 8\ntest complete\nreturn status 8\n"},
		{"udaddy", "RDMA_CM_EVENT_REJECTED, error: 1",
			"udaddy: event: RDMA_CM_EVENT_REJECTED, error: 1\ntest complete\nreturn status 1\n"},
	} {
		e := start(t, ctx, nil, c.name, "-s "+at+" --addr "+toolcheck.Addr(t).String())
		<-e.done
		require.ErrorContains(t, e.err, c.want)
		require.ErrorContains(t, e.err, "nobody listens")
		require.Contains(t, e.stdout.String(), c.stdout)
	}
	cancel()
	<-s.done
	require.ErrorIs(t, s.err, context.Canceled)
}

func TestOptions(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"ucmatose", "-f gid", "not supported"},
		{"ucmatose", "-f x", "not one of"},
		{"ucmatose", "-P sctp", "neither tcp nor ib"},
		{"udaddy", "-p 2", "only port space UDP"},
		{"udaddy", "-P ipoib", "only port space udp"},
		{"udaddy", "-S 9000 -b LOCAL", "larger than active mtu 4096"},
		{"mckey", "", "the group is needed"},
		{"mckey", "-m 10.0.0.1 -b LOCAL", "not a multicast address"},
		{"mckey", "-l -m 239.0.0.1", "not supported"},
	} {
		args := strings.ReplaceAll(c.args, "LOCAL", toolcheck.Addr(t).String())
		e := start(t, t.Context(), nil, c.name, args)
		<-e.done
		require.ErrorContains(t, e.err, c.want, args)
	}
}
