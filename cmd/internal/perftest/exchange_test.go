package perftest

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// The form of this message was seen from ib_write_bw 6.06.
const destText = "0000:0001:00001d:a131de:00001234:00007f1234560000:" +
	"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:02:00000000:\x00"

var destValue = dest{
	OutReads: 1, QPN: 0x1d, PSN: 0xa131de, RKey: 0x1234, VAddr: 0x7f1234560000,
	GID: ib.GID{10: 0xff, 0xff, 10, 77, 0, 2},
}

func TestDest(t *testing.T) {
	require.Len(t, destText, destBytes)
	require.Equal(t, destText, string(destValue.append(nil)))
	got, err := parseDest([]byte(destText))
	require.NoError(t, err)
	require.Equal(t, destValue, got)
}

func TestDestRefused(t *testing.T) {
	replace := func(old, new string) string { return strings.Replace(destText, old, new, 1) }
	for name, text := range map[string]string{
		"empty":             "",
		"only NULs":         strings.Repeat("\x00", destBytes),
		"no GID":            "0000:0001:00001d:a131de:00001234:00007f1234560000:00000000",
		"QPN of 25 bits":    replace("00001d", "100001d"),
		"PSN not a number":  replace("a131de", "a131dg"),
		"negative address":  replace("00007f1234560000", "-0007f1234560000"),
		"GID byte too long": replace(":0a:", ":0a0:"),
		"SRQN not a number": replace("00000000:\x00", "0000000x:\x00"),
	} {
		_, err := parseDest([]byte(text))
		require.Error(t, err, name)
	}
	// Every truncation of the text lacks a field or has a shorter last one.
	for n := range len(destText) - len("00000000:\x00") {
		_, err := parseDest([]byte(destText[:n]))
		require.Error(t, err, "first %d bytes", n)
	}
}

func FuzzParseDest(f *testing.F) {
	f.Add([]byte(destText))
	f.Add([]byte("0000:0001:00001d:a131de:00001234:00007f1234560000:00000000"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		d, err := parseDest(msg)
		if err != nil {
			return
		}
		if d.QPN > 0xffffff || d.PSN > ib.PSNMask {
			t.Fatalf("QPN or PSN out of range in %+v", d)
		}
		again, err := parseDest(d.append(nil))
		if err != nil || again != d {
			t.Fatalf("%+v came back as %+v, %v", d, again, err)
		}
	})
}

func TestVersion(t *testing.T) {
	require.Len(t, versionMessage(), versionBytes)
	for text, want := range map[string]string{
		"6.06\x00\x00": "6.06", "5.70": "5.70", "6.29 rc1": "6.29", "26.01": "26.01",
	} {
		got, err := parseVersion([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "\x006.06", "5.69", "0", "GET / HTTP/1.1", "1.2.3", "-6.06"} {
		_, err := parseVersion([]byte(text))
		require.Error(t, err, text)
	}
	got, err := parseVersion(versionMessage())
	require.NoError(t, err)
	require.Equal(t, version, got)
}

func FuzzParseVersion(f *testing.F) {
	f.Add(versionMessage())
	f.Fuzz(func(t *testing.T, msg []byte) {
		v, err := parseVersion(msg)
		if err == nil && !bytes.HasPrefix(msg, []byte(v)) {
			t.Errorf("%q from %q", v, msg)
		}
	})
}

func TestCommonMTU(t *testing.T) {
	for msg, want := range map[string]ib.MTU{
		"1\x00": ib.MTU256, "3\x00": ib.MTU1024, "5\x00": ib.MTU1024,
		"0\x00": ib.MTU1024, "9\x00": ib.MTU1024, "\x00\x00": ib.MTU1024, "\xff\xff": ib.MTU1024,
	} {
		require.Equal(t, want, commonMTU(ib.MTU1024, []byte(msg)), "%q", msg)
	}
}

func TestReportWords(t *testing.T) {
	r := bwReport{Size: 65536, Iters: 5000, Peak: 1234.5, Average: 1200.25, Rate: 0.019204}
	got, err := parseReport(r.words())
	require.NoError(t, err)
	require.Equal(t, r, got)

	words := r.words()
	words[3] = math.Float64bits(-1)
	_, err = parseReport(words)
	require.Error(t, err)
}

func FuzzParseReport(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), uint64(4), uint64(5))
	f.Fuzz(func(t *testing.T, a, b, c, d, e uint64) {
		r, err := parseReport([reportFields]uint64{a, b, c, d, e})
		if err == nil && (r.Peak < 0 || r.Average < 0 || r.Rate < 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}
