package ib_test

import (
	"bytes"
	"testing"

	"github.com/goroce/goroce/ib"
)

// What a sender puts into the reserved field of a CNP is seen as it is.
func TestCNPReserved(t *testing.T) {
	p := ib.NewCNP(0x1234)
	for i := range p.CNPReserved {
		p.CNPReserved[i] = byte(i + 1)
	}
	b := make([]byte, ib.MaxHeaderBytes)
	b = append(b[:p.PutHeaders(b)], 0, 0, 0, 0)
	if !bytes.Contains(b, p.CNPReserved[:]) {
		t.Fatalf("% x", b)
	}
	var got ib.Packet
	if err := got.Decode(b); err != ib.DecodeOK {
		t.Fatal(err)
	}
	if got.CNPReserved != p.CNPReserved {
		t.Errorf("% x", got.CNPReserved)
	}
}
