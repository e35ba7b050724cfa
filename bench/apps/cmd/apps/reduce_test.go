package main

import (
	"fmt"
	"testing"
	"time"
)

// The rate comes from the mean. Calls that a quota has stopped are in it, and not in p50.
func TestQuantiles(t *testing.T) {
	took := []time.Duration{90 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond}
	var p50, p99, mean float64
	if _, err := fmt.Sscanf(sayQuantiles(took), quantiles, &p50, &p99, &mean); err != nil {
		t.Fatal(err)
	}
	if p50 != 10_000 || p99 != 90_000 || mean != 30_000 {
		t.Error(p50, p99, mean)
	}
}
