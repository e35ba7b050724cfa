package ib_test

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/ib"
)

// benchOpcodes are those whose speed matters: bulk data, small messages, acks.
var benchOpcodes = []ib.Opcode{ib.RCSendMiddle, ib.RCWriteOnly, ib.RCAcknowledge, ib.RCReadRequest,
	ib.RCFetchAdd, ib.UDSendOnly}

func BenchmarkDecode(b *testing.B) {
	for _, o := range benchOpcodes {
		p := distinctPacket(o)
		icrc := vectors[0].frame(b).icrc()
		buf := p.Append(nil, icrc, 0)
		b.Run(o.String(), func(b *testing.B) {
			b.ReportAllocs()
			var p ib.Packet
			for b.Loop() {
				p.Decode(buf)
			}
		})
	}
}

func BenchmarkPutHeaders(b *testing.B) {
	for _, o := range benchOpcodes {
		p := distinctPacket(o)
		b.Run(o.String(), func(b *testing.B) {
			b.ReportAllocs()
			var buf [ib.MaxHeaderBytes]byte
			for b.Loop() {
				p.PutHeaders(buf[:])
			}
		})
	}
}

// benchSizes are payloads in bytes.
var benchSizes = []int{0, 8, 64, 1024, 4096}

func writeOnly(n int) []byte {
	b := make([]byte, int(ib.RCWriteOnly.Info().HeaderLen)+n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	b[0] = byte(ib.RCWriteOnly)
	return b
}

// BenchmarkICRC is the ICRC of a whole WRITE ONLY, as a receiver needs it.
func BenchmarkICRC(b *testing.B) {
	for _, v := range []int{0, 6} {
		f := vectors[v].frame(b)
		name := "IPv4"
		if f.flow.Src.Is6() {
			name = "IPv6"
		}
		for _, n := range benchSizes {
			buf := writeOnly(n)
			b.Run(fmt.Sprintf("%s/%dB", name, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(buf)))
				icrc := f.icrc()
				for b.Loop() {
					icrc.Checksum(f.id, buf)
				}
			})
		}
	}
}

// BenchmarkICRCHead is the share of pseudo header and BTH, as a sender needs it.
func BenchmarkICRCHead(b *testing.B) {
	for _, o := range []ib.Opcode{ib.RCSendMiddle, ib.RCWriteOnly, ib.RCFetchAdd} {
		p := distinctPacket(o)
		icrc := vectors[0].frame(b).icrc()
		buf := p.Append(nil, icrc, 0)
		b.Run(o.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				icrc.Head(len(buf), 7, buf[:p.Opcode.Info().HeaderLen])
			}
		})
	}
}

// BenchmarkVerify is what a receiver pays that does not see the
// identification: guessed right, solved for, and refused.
func BenchmarkVerify(b *testing.B) {
	f := vectors[0].frame(b)
	icrc := f.icrc()
	for _, n := range benchSizes {
		body := writeOnly(n)
		buf := append(body, 0, 0, 0, 0)
		ib.PutICRC(buf[len(body):], icrc.Checksum(f.id, body))
		for _, c := range []struct {
			name  string
			guess uint16
			want  ib.Match
		}{{"guessed", f.id, ib.MatchExact}, {"solved", f.id + 1, ib.MatchSolved}} {
			b.Run(fmt.Sprintf("%s/%dB", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, m := icrc.Verify(c.guess, buf); m != c.want {
						b.Fatal(m)
					}
				}
			})
		}
	}
}
