// Package kv is the state machine that the replicated log is tried with: a map whose operations are
// entries of the log, reads too, and a model that says whether a history of them can be.
package kv

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"io"
	"maps"
	"sync"

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
