package slots

import (
	"encoding/binary"
	"errors"

	"github.com/goroce/goroce/internal/unix"
)

// ground is what the rules for leases build on at one address: the record locks and bytes of the
// memory file, and the control of the sockets. For a device it is the kernel. Tests that play every
// schedule bring their own, since the kernel takes long to set filters.
type ground interface {
	lock(at, n int64) (bool, error) // false: another device has one of the bytes
	unlock(at, n int64)
	locked(at, n int64) (start, length int64, ok bool) // by another device

	read(at int64) (word, error) // as numbers, since a slice would be allocated
	write(at int64, w word) error

	deafen(slot int) error // makes its UDP socket drop everything; hear ends that
	hear(slot int) error
	drain(slot int)
	drainInbox(slot int)
	handOn(slot int, b []byte) bool
}

// kernel is a set as a ground.
type kernel set

func (k *kernel) lock(at, n int64) (bool, error) { return lock(k.locks, at, n) }
func (k *kernel) unlock(at, n int64)             { unlock(k.locks, at, n) }

func (k *kernel) locked(at, n int64) (start, length int64, ok bool) { return locked(k.locks, at, n) }

func (k *kernel) read(at int64) (word, error) {
	var b [wordBytes]byte
	if n, err := unix.Pread(k.locks, b[:], at); err != nil || n != len(b) {
		return 0, errors.Join(err, errors.New("the memory file is too short"))
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}

func (k *kernel) write(at int64, w word) error {
	var b [wordBytes]byte
	binary.NativeEndian.PutUint64(b[:], w)
	_, err := unix.Pwrite(k.locks, b[:], at)
	return err
}

func (k *kernel) deafen(slot int) error { return deafen((*set)(k).udp(slot)) }
func (k *kernel) hear(slot int) error   { return hear((*set)(k).udp(slot)) }
func (k *kernel) drain(slot int)        { drain((*set)(k).udp(slot)) }

func (k *kernel) drainInbox(slot int) {
	in, _ := (*set)(k).inbox(slot)
	drain(in)
}

func (k *kernel) handOn(slot int, b []byte) bool {
	_, to := (*set)(k).inbox(slot)
	return unix.Send(to, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) == nil
}
