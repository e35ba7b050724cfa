package guests

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	r, err := parse(` #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      300              12.50              10.00  		   0.000160
---`, false)
	require.NoError(t, err)
	require.Equal(t, 10.48576, r.value)
	r, err = parse(` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 64      1000          1.00           2.00         3.00     	  4.00        	5.00  		6.00   7.00`, true)
	require.NoError(t, err)
	require.Equal(t, result{value: 3, p99: 6}, r)
	for _, bad := range []string{"", "#bytes", "#bytes\n 1 2", "#bytes\n1 2 3 x"} {
		_, err := parse(bad, false)
		require.Error(t, err, "%q", bad)
	}
}
