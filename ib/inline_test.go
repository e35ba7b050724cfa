package ib_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestInlining holds the small functions of the data path within the
// compiler's budget for inlining.
func TestInlining(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command, which is asked what it inlines, is not installed: ", err)
	}
	out, err := exec.Command(goTool, "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range []string{
		"PSN.Add", "PSN.Next", "PSN.Prev", "PSN.Diff", "PSN.Before", "PSN.After", "PSN.InRange", "MSN.Next", "MSN.Diff",
		"Opcode.Info", "Opcode.Known", "Opcode.Has", "Syndrome.Kind", "Syndrome.RNRCode",
		"Syndrome.CreditCode", "ACKCredit", "RNRNAK", "MTU.Valid", "MTU.Bytes", "PKey.Match", "PadFor",
		"TimeoutCode.Ns", "RNRCode.Ns", "PutICRC", "TrailingICRC", "(*crcField).at", "PayloadRule.Admits",
	} {
		if !strings.Contains(string(out), "can inline "+f+"\n") {
			t.Errorf("%s is not inlined any more", f)
		}
	}
}
