package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"time"

	"github.com/goroce/goroce/bench/apps/store"
)

const sector = 512

// cutDisk is a disk whose process loses what was not persisted when it is killed, as a machine does
// whose power is cut. The kernel would keep what was written to a file that is mapped. Sectors are
// written in any order, and now and then one that nobody asked for.
type cutDisk struct {
	f      *os.File
	memory []byte
	lasts  []byte // what the file has
	turn   chan struct{}
	end    chan struct{}
}

func openCutDisk(name string, blocks int) (store.Disk, error) {
	mapped, err := store.OpenFile(name, blocks)
	if err != nil {
		return nil, err
	}
	d := &cutDisk{memory: bytes.Clone(mapped.Bytes()), lasts: bytes.Clone(mapped.Bytes()),
		turn: make(chan struct{}, 1), end: make(chan struct{})}
	if err := mapped.Close(); err != nil {
		return nil, err
	}
	if d.f, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
		return nil, err
	}
	go d.writeBack()
	return d, nil
}

func (d *cutDisk) Bytes() []byte { return d.memory }

// Persist writes the sectors of some bytes that are not in the file.
func (d *cutDisk) Persist(from, n int) error {
	first, end := from/sector, (from+n+sector-1)/sector
	for _, i := range rand.Perm(end - first) {
		if err := d.write(first + i); err != nil {
			return err
		}
	}
	return nil
}

// write writes a sector if it is not in the file.
func (d *cutDisk) write(i int) error {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	from, to := i*sector, min((i+1)*sector, len(d.memory))
	if bytes.Equal(d.memory[from:to], d.lasts[from:to]) {
		return nil
	}
	copy(d.lasts[from:to], d.memory[from:to])
	_, err := d.f.WriteAt(d.lasts[from:to], int64(from))
	return err
}

// writeBack writes sectors as the kernel does, which asks nobody.
func (d *cutDisk) writeBack() {
	t := time.NewTicker(2 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			for range len(d.memory) / sector / 10 {
				if d.write(rand.N((len(d.memory)+sector-1)/sector)) != nil {
					return
				}
			}
		case <-d.end:
			return
		}
	}
}

func (d *cutDisk) Close() error {
	close(d.end)
	return d.f.Close()
}
