package ibverbs

import (
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// Sent by ibv_rc_pingpong of rdma-core 44 on rdma_rxe.
const destText = "0000:00001d:a131de:00000000000000000000ffff0a4d0002\x00"

var destValue = dest{QPN: 0x1d, PSN: 0xa131de, GID: ib.GID{10: 0xff, 0xff, 10, 77, 0, 2}}

func TestDest(t *testing.T) {
	require.Equal(t, 52, destBytes)
	require.Equal(t, destText, string(destValue.append(nil)))
	got, err := parseDest([]byte(destText))
	require.NoError(t, err)
	require.Equal(t, destValue, got)
	require.Equal(t, "::ffff:10.77.0.2", tool.GIDText(got.GID.Addr()))
	require.Equal(t, "2001:db8::1", tool.GIDText(ib.GID{0x20, 1, 0x0d, 0xb8, 15: 1}.Addr()))
	require.Equal(t, "::", tool.GIDText(ib.GID{}.Addr()))
}

func TestDestRefused(t *testing.T) {
	replace := func(old, new string) string { return strings.Replace(destText, old, new, 1) }
	for name, text := range map[string]string{
		"only NULs":      strings.Repeat("\x00", destBytes),
		"xsrq_pingpong":  "0000:00001d:00001d:00001d:00:000000:00000000000000000000ffff0a4d0002",
		"QPN of 25 bits": replace("00001d", "100001d"),
		"PSN":            replace("a131de", "a131dg"),
		"GID":            replace("0a4d", "0a4g"),
	} {
		_, err := parseDest([]byte(text))
		require.Error(t, err, name)
	}
	for n := range len(destText) - 1 {
		_, err := parseDest([]byte(destText[:n]))
		require.Error(t, err, "first %d bytes", n)
	}
}

func FuzzParseDest(f *testing.F) {
	f.Add([]byte(destText))
	f.Fuzz(func(t *testing.T, msg []byte) {
		d, err := parseDest(msg)
		if err != nil {
			return
		}
		again, err := parseDest(d.append(nil))
		if err != nil || again != d {
			t.Fatalf("%+v came back as %+v, %v", d, again, err)
		}
	})
}
