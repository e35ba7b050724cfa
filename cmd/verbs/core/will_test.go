package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"golang.org/x/sys/unix"
)

const (
	willChild = "GOROCE_TEST_WILLS" // helper, source, destination
	willCount = 220                 // the first mapping has room for fewer
)

// testWill is one of a process.
func testWill(pid int, id uint32) (p [willPacketBytes]byte) {
	for i := range p {
		p[i] = byte(i)
	}
	binary.BigEndian.PutUint32(p[ib.BTHBytes:], id)
	binary.BigEndian.PutUint32(p[ib.BTHBytes+4:], uint32(pid))
	return p
}

// TestWillsChild is the process that dies.
func TestWillsChild(t *testing.T) {
	var helper, from, to string
	if n, _ := fmt.Sscan(os.Getenv(willChild), &helper, &from, &to); n != 3 {
		t.Skip("part of TestWillsOfKilled")
	}
	f, err := startWills(helper)
	if err != nil {
		t.Fatal(err)
	}
	w := &deviceWills{file: f}
	put := func(id uint32) {
		p := testWill(os.Getpid(), id)
		w.put(id, netip.MustParseAddr(from), netip.MustParseAddr(to), p[:])
	}
	put(0)
	put(1)
	// A program may close whatever it does not know, and go on.
	if err := unix.CloseRange(3, ^uint(0), 0); err != nil {
		os.Exit(3)
	}
	w.drop(0)
	w.drop(1)
	for id := range uint32(willCount) {
		put(2 + id)
	}
	w.drop(2)
	w.drop(99999) // that there is none of
	_, _ = unix.Write(1, []byte("ready"))
	_, _ = unix.Read(0, make([]byte, 1))
}

// A process is killed, and its peers are told what it has left, and nothing else.
func TestWillsOfKilled(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	helper := filepath.Join(t.TempDir(), "goroce_will")
	if b, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-o", helper,
		"../will/goroce_will.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, b)
	}
	pid := os.Getpid()
	own := fmt.Sprintf("127.%d.%d.%d", 64+pid>>15&127, pid>>7&255, 2*(pid&127)) // others test at the same time
	for _, c := range [][2]string{{own, own}, {"127.0.0.1", own}, {"::1", "::1"}} {
		t.Run(c[0],
			func(t *testing.T) { killedProcess(t, helper, netip.MustParseAddr(c[0]), netip.MustParseAddr(c[1])) })
	}
}

func killedProcess(t *testing.T, helper string, from, to netip.Addr) {
	peer, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, ib.UDPPort)))
	if err != nil {
		t.Skip("somebody has the port: ", err)
	}
	defer peer.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWillsChild$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", willChild, helper, from, to))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 5)
	_, err = out.Read(ready)
	_ = cmd.Process.Kill()
	rest := new(bytes.Buffer)
	_, _ = rest.ReadFrom(out)
	_ = cmd.Wait()
	if string(ready) != "ready" {
		t.Fatalf("%v: %s%s", err, ready, rest)
	}
	_ = peer.SetReadDeadline(time.Now().Add(time.Minute))
	seen := map[uint32]bool{}
	for b := make([]byte, 1024); len(seen) < willCount-1; {
		n, sender, err := peer.ReadFromUDPAddrPort(b)
		if err != nil {
			t.Fatalf("%v; %d of %d", err, len(seen), willCount-1)
		}
		if n != willPacketBytes+ib.ICRCBytes {
			t.Fatalf("%d bytes", n)
		}
		if binary.BigEndian.Uint32(b[ib.BTHBytes+4:]) != uint32(cmd.Process.Pid) {
			continue // what an earlier process has left is said again
		}
		id := binary.BigEndian.Uint32(b[ib.BTHBytes:])
		want := testWill(cmd.Process.Pid, id)
		icrc := ib.NewICRC(ib.Flow{Src: from, Dst: to, SrcPort: sender.Port(), DstPort: ib.UDPPort})
		switch {
		case id < 3 || id >= 2+willCount:
			t.Fatalf("will %d", id)
		case sender.Addr().Unmap() != from:
			t.Fatalf("from %v", sender)
		case !bytes.Equal(b[:willPacketBytes], want[:]):
			t.Fatalf("packet % x", b[:n])
		case ib.TrailingICRC(b[:n]) != icrc.Checksum(0, want[:]):
			t.Fatalf("ICRC %#x, not %#x", ib.TrailingICRC(b[:n]), icrc.Checksum(0, want[:]))
		}
		seen[id] = true
	}
}

// Without the helper, or where there cannot be one, the process goes on as it would.
func TestNoWillHelper(t *testing.T) {
	if f, err := startWills(""); f != nil || err == nil {
		t.Error(err)
	}
	if f, err := startWills(filepath.Join(t.TempDir(), "none")); f != nil || err == nil {
		t.Error(err)
	}
}
