package analyse

// times remembers when the last frames were captured.
type times struct {
	ring []frameTime
}

type frameTime struct {
	frame int
	at    int64
}

// rememberedTimes is the number of frames whose times are remembered: a power of two.
const rememberedTimes = 1 << 14

func (t *times) note(frame int, at int64) {
	if t.ring == nil {
		t.ring = make([]frameTime, rememberedTimes)
	}
	t.ring[frame&(rememberedTimes-1)] = frameTime{frame, at}
}

// of returns when a frame was captured; ok is false if that is too long ago.
func (t *times) of(frame int) (at int64, ok bool) {
	if t.ring == nil {
		return 0, false
	}
	x := t.ring[frame&(rememberedTimes-1)]
	return x.at, x.frame == frame
}
