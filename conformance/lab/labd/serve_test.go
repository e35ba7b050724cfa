//go:build linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/guestproto"
)

// A command that ends before the host has sent everything must not cost the host any
// of the answer: TCP resets a connection that is closed with input unread.
func TestServeClosesAfterTheHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		host, guest := net.Pipe()
		served := false
		go func() { serve(guest); served = true }()

		c := guestproto.NewConn(host)
		require.NoError(t, c.WriteJSON(guestproto.TypeRequest, guestproto.Request{Op: "get", Path: path}))
		for _, want := range []guestproto.Type{guestproto.TypeStdout, guestproto.TypeExit} {
			typ, _, err := c.ReadFrame()
			require.NoError(t, err)
			require.Equal(t, want, typ)
		}
		// The end of the input, late: a closed pipe refuses it as TCP would reset.
		require.NoError(t, c.WriteFrame(guestproto.TypeStdin, nil))
		synctest.Wait()
		require.False(t, served, "closed before the host")
		require.NoError(t, host.Close())
		synctest.Wait()
		require.True(t, served)
	})
}

// A host that never closes is left after a while.
func TestServeLeavesASilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, guest := net.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); serve(guest) }()
		c := guestproto.NewConn(host)
		require.NoError(t, c.WriteJSON(guestproto.TypeRequest, guestproto.Request{Op: "nothing"}))
		_, _, err := c.ReadFrame()
		require.NoError(t, err)
		<-served
	})
}
