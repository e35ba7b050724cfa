package conform

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/link/udp"
)

// selfCommand is the command of the other process; tests have another.
var selfCommand = func(ctx context.Context, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, exe, append([]string{"conform", "agent"}, args...)...), nil
}

// selfAddrs are two loopback addresses, for this process and the other one. All of 127/8 is this
// machine's, so that runs side by side need not meet.
func selfAddrs(pid int) (here, there netip.Addr) {
	a := [4]byte{127, byte(64 + pid>>14&0x3f), byte(pid >> 7), byte(pid<<1) | 1}
	here = netip.AddrFrom4(a)
	a[3] &^= 1
	a[1] |= 0x80
	return here, netip.AddrFrom4(a)
}

// loopback6 is the only IPv6 address of loopback. Both processes have it: devices of one user share
// an address, and their queue pairs have different numbers. It is invalid where there is no IPv6,
// or another program has UDP port 4791 of it to itself.
func loopback6() netip.Addr {
	a := netip.IPv6Loopback()
	l, err := udp.OpenAny([]netip.Addr{a}, udp.Options{})
	if err != nil {
		return netip.Addr{}
	}
	defer l.Close()
	if l.Capabilities().Alone != "" {
		return netip.Addr{}
	}
	return a
}

// startSelf starts an agent in another process, at another loopback address, and at that of IPv6 on
// a link that can share it. It ends with this process, however that ends.
func startSelf(ctx context.Context, env *tool.Env, link string, answer time.Duration) (*selfAgent, func(), error) {
	here, there := selfAddrs(os.Getpid())
	local, remote := []netip.Addr{here}, there.String()
	if link == "" || link == peer.DefaultLink {
		if a := loopback6(); a.IsValid() {
			local, remote = append(local, a), remote+","+a.String()
		}
	}
	token, err := newToken()
	if err != nil {
		return nil, nil, err
	}
	// This side sends with segmentation offload, where a long WRITE leaves as short ones; the other
	// one without.
	cmd, err := selfCommand(ctx, "--addr", remote, "--listen", there.String()+":0", "--no-gso", "--until-eof")
	if err != nil {
		return nil, nil, err
	}
	cmd.Env = append(cmd.Environ(), tokenEnv+"="+token)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	errs := &prefixed{w: env.Stderr}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	end := func() {
		in.Close()
		_ = cmd.Wait() // it has been killed, or has ended by itself
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("the other process has ended: %s", errs.last)
	}
	addr, err := parseListening(line)
	if err != nil {
		end()
		return nil, nil, err
	}
	return &selfAgent{peer.AgentServer{Addr: addr, Token: token, Timeout: answer}, local}, end, nil
}
