package pcap_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/goroce/goroce/roce/pcap"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// sizes are the lengths of the frames of a file, up to its end or an error.
func sizes(file []byte) (all []int, err error) {
	r, err := pcap.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	var f pcap.Frame
	for {
		if err := r.Next(&f); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all, err
		}
		all = append(all, len(f.Data))
	}
}

func gzipped(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zstandard(t testing.TB, b []byte, o ...zstd.EOption) []byte {
	w, err := zstd.NewWriter(nil, o...)
	require.NoError(t, err)
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// Compressed files are read as what is in them, several one behind the other too; damaged ones are
// errors that say where.
func TestCompressed(t *testing.T) {
	plain, err := os.ReadFile("../../ib/testdata/captures/rping.pcap")
	require.NoError(t, err)
	want, err := sizes(plain)
	require.NoError(t, err)
	require.Len(t, want, 41)
	half := len(plain) / 2
	for name, file := range map[string][]byte{
		"gzip": gzipped(t, plain), "zstd": zstandard(t, plain),
		"two of gzip": append(gzipped(t, plain[:half]), gzipped(t, plain[half:])...),
		"two of zstd": append(zstandard(t, plain[:half]), zstandard(t, plain[half:])...),
	} {
		got, err := sizes(file)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		for _, cut := range []int{5, len(file) / 2, len(file) - 3} {
			_, err := sizes(file[:cut])
			var format *pcap.FormatError
			require.ErrorAs(t, err, &format, "%s, cut at %d", name, cut)
		}
		if len(file) > 200 {
			bad := bytes.Clone(file)
			for i := 100; i < 140; i++ {
				bad[i] ^= 0x55
			}
			_, err := sizes(bad)
			require.Error(t, err, name)
		}
	}
	_, err = sizes(gzipped(t, []byte("no capture, but long enough to be one")))
	require.ErrorContains(t, err, "neither pcap nor pcapng")
	// A window of more memory than a reader may be asked for.
	huge := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xF8, 0, 0, 0, 0}
	_, err = sizes(huge)
	require.Error(t, err)
}

// Any bytes may be in a compressed file.
func FuzzCompressed(f *testing.F) {
	plain, err := os.ReadFile("../../ib/testdata/captures/rping.pcap")
	require.NoError(f, err)
	f.Add(gzipped(f, plain[:2000]))
	f.Add(zstandard(f, plain[:2000]))
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) < 1<<12 {
			_, _ = sizes(file)
		}
	})
}

// Each link type either is understood or says what to do instead.
func TestAdvice(t *testing.T) {
	ip := ipPacket(t)
	for typ := range pcap.LinkType(512) {
		d := &pcap.Decoder{}
		d.Decode(&pcap.Frame{Link: typ, Data: ip, WireBytes: len(ip)})
		require.NotEmpty(t, typ.String())
		if d.Counts[pcap.UnknownLink] == 0 {
			require.Empty(t, typ.Advice(), typ)
		} else {
			require.NotEmpty(t, typ.Advice(), typ)
			require.Equal(t, typ, d.Strange)
		}
	}
}
