package main

import (
	"testing"

	"github.com/goroce/goroce/internal/unix"
)

func TestEpolled(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(set)
	if epolled(fd) {
		t.Fatal("nobody waits for it by epoll")
	}
	if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		t.Fatal(err)
	}
	if !epolled(fd) {
		t.Fatal("a set has it")
	}
	if epolled(set) {
		t.Fatal("no set has the other set")
	}
}
