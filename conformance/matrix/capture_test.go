package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What tshark guesses a payload to be is none of the packet's faults.
func TestDissected(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"4\teth:ethertype:ip:udp:infiniband\t\n", ""},
		{"4\teth:ethertype:ip:udp:infiniband:data\t\n", ""},
		{"4\teth:ethertype:ip:udp:infiniband:rpcordma\t[Malformed Packet: RPCoRDMA],_ws.malformed\n", ""},
		{"4\teth:ethertype:ip:udp:infiniband\t[Malformed Packet: IB],_ws.malformed\n",
			"tshark calls packet 1 of x malformed"},
		{"5\teth:ethertype:ip:udp:infiniband:data\t\n", "of opcode"},
		{"\teth:ethertype:ip:udp:data\t\n", "tshark shows no opcode"},
	} {
		_, err := dissected(tt.line, "x", map[uint8]int{4: 1})
		if tt.want == "" {
			require.NoError(t, err, tt.line)
		} else {
			require.ErrorContains(t, err, tt.want, tt.line)
		}
	}
}
