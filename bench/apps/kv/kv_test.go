package kv

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// draw has clients use a map one after the other, with times that overlap, and forgets how some of
// them ended. If wrong, one operation returned something else.
func draw(r *rand.Rand, wrong bool) []porcupine.Operation {
	var history []porcupine.Operation
	state, now := "", int64(0)
	for i := range 2 + r.IntN(9) {
		now += 10
		op := Op{Put: r.IntN(3) > 0, Key: "k", Value: fmt.Sprint(i)}
		o := porcupine.Operation{ClientId: i, Input: op, Call: now - r.Int64N(40),
			Return: now + r.Int64N(40), Output: state}
		lost := r.IntN(3) == 0
		if op.Put && !(lost && r.IntN(2) == 0) { // some of the lost never happen
			state = op.Value
		} else if op.Put {
			o.Output = nil
		}
		if lost && op.Put {
			o.Output, o.Return = nil, 1<<62
		}
		history = append(history, o)
	}
	if i := r.IntN(len(history)); wrong && history[i].Output != nil {
		history[i].Output = fmt.Sprint(r.IntN(len(history)))
	}
	return history
}

// What Settle leaves is a history of a map if and only if the whole was.
func TestSettle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	verdicts := map[porcupine.CheckResult]int{}
	for i := range 1500 {
		h := draw(r, i%2 == 1)
		want := porcupine.CheckOperationsTimeout(Model, h, time.Minute)
		verdicts[want]++
		if got := porcupine.CheckOperationsTimeout(Model, Settle(h), time.Minute); got != want {
			t.Fatalf("%v, and %v without what is not known: %+v", want, got, h)
		}
		if err := Check(h, time.Minute); (err == nil) != (want == porcupine.Ok) {
			t.Fatalf("%v: %v", want, err)
		}
	}
	if verdicts[porcupine.Ok] < 400 || verdicts[porcupine.Illegal] < 250 {
		t.Errorf("of both there have to be many: %v", verdicts)
	}
}

// A hundred Puts whose end nobody knows are no hundred factorial ways.
func TestManyUnknown(t *testing.T) {
	var h []porcupine.Operation
	state := ""
	for i := range int64(400) {
		o := porcupine.Operation{Input: Op{Put: true, Key: "k", Value: fmt.Sprint(i)}, Call: 10 * i,
			Return: 10*i + 5, Output: state}
		if i%4 == 0 {
			o.Return, o.Output = 1<<62, nil
		}
		if i%8 != 0 {
			state = fmt.Sprint(i)
		}
		h = append(h, o)
	}
	if err := Check(h, time.Minute); err != nil {
		t.Error(err)
	}
}
