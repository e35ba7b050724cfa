package rsocket

import (
	"testing"
	"time"
)

// Patient has Write ask whether the peer is there also on a machine so busy that a round trip takes
// long, and wait for the answer.
func Patient(t *testing.T) {
	rtt, wait := confirmRTT, confirmTime
	t.Cleanup(func() { confirmRTT, confirmTime = rtt, wait })
	confirmRTT, confirmTime = time.Hour, time.Minute
}
