// Package kv is the state machine that the replicated log is tried with: a map whose operations are
// entries of the log, reads too, and a model that says whether a history of them can be.
package kv

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/hashicorp/raft"
)

// Op is an operation: a Put, or a Get if Put is false.
type Op struct {
	Put        bool
	Key, Value string
}

// Encode makes an entry of a log.
func (o Op) Encode() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings always can
	}
	return b
}

// Map is a raft.FSM. Applying a Get returns the value, a Put the value before.
type Map struct {
	mu sync.Mutex
	m  map[string]string
}

// New makes an empty map.
func New() *Map { return &Map{m: map[string]string{}} }

// Apply carries an entry out.
func (m *Map) Apply(l *raft.Log) any {
	var op Op
	if err := json.Unmarshal(l.Data, &op); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.m[op.Key]
	if op.Put {
		m.m[op.Key] = op.Value
	}
	return before
}

// Snapshot copies the map.
func (m *Map) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return snapshot(maps.Clone(m.m)), nil
}

// Restore replaces the map.
func (m *Map) Restore(r io.ReadCloser) error {
	defer r.Close()
	var all map[string]string
	if err := gob.NewDecoder(r).Decode(&all); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m = all
	return nil
}

type snapshot map[string]string

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(map[string]string(s))
	if err == nil {
		_, err = sink.Write(b.Bytes())
	}
	if err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

func (s snapshot) Release() {}

// Model is what a history is held against: each key is a register.
var Model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(Op).Key
			by[key] = append(by[key], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range by {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		op := input.(Op)
		if before, known := output.(string); known && before != state.(string) {
			return false, state // what it returned is not what was there
		}
		if op.Put {
			return true, op.Value
		}
		return true, state
	},
}

// Settle makes a history shorter that has Puts whose end is not known: their Return is after all
// others, and they have no Output. Each value is put to a key once, and every operation returns
// what was there before. So if any operation returned such a value, its Put was carried out before
// that returned; and if none did, it was not carried out, or only others whose end is not known
// came next: the rest of the history can be without it if it can be with it. The check of many such
// Puts would take for ever: each can be anywhere behind its call.
func Settle(history []porcupine.Operation) []porcupine.Operation {
	type put struct{ key, value string }
	seen := map[put]int64{} // the first Return of an operation that returned it
	for _, o := range history {
		if before, known := o.Output.(string); known {
			p := put{o.Input.(Op).Key, before}
			if at, ok := seen[p]; !ok || o.Return < at {
				seen[p] = o.Return
			}
		}
	}
	var settled []porcupine.Operation
	for _, o := range history {
		if op := o.Input.(Op); op.Put && o.Output == nil {
			at, ok := seen[put{op.Key, op.Value}]
			if !ok {
				continue
			}
			o.Return = max(at, o.Call) // before its call: nothing allows that, and the check will say so
		}
		settled = append(settled, o)
	}
	return settled
}

// Check returns an error that tells the operations of a key whose history no map has, or that it
// could not be found out.
func Check(history []porcupine.Operation, patience time.Duration) error {
	for _, part := range Model.Partition(Settle(history)) {
		one := Model
		one.Partition = nil
		switch porcupine.CheckOperationsTimeout(one, part, patience) {
		case porcupine.Unknown:
			return fmt.Errorf("whether a map has the %d operations of %q is not known after %v", len(part),
				part[0].Input.(Op).Key, patience)
		case porcupine.Illegal:
			var b strings.Builder
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
			for _, o := range part {
				fmt.Fprintf(&b, "\n%d to %d, client %d: %+v returned %v", o.Call, o.Return, o.ClientId,
					o.Input, o.Output)
			}
			return fmt.Errorf("no map has the history of %q:%s", part[0].Input.(Op).Key, b.String())
		}
	}
	return nil
}
