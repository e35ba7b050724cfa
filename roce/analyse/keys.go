package analyse

import "github.com/goroce/goroce/ib"

// keptKeys is how many of the last keys are remembered.
const keptKeys = 16

// keys are those with which requests were carried out, and the last packet of each.
type keys struct {
	last [keptKeys]struct {
		rkey  ib.RKey
		frame int
	}
	next int
}

// worked notes that a request with a key was carried out; 0 is no key.
func (k *keys) worked(rkey ib.RKey, frame int) {
	if rkey == 0 {
		return
	}
	for i := range k.last {
		if k.last[i].rkey == rkey {
			k.last[i].frame = frame
			return
		}
	}
	k.last[k.next%keptKeys].rkey, k.last[k.next%keptKeys].frame = rkey, frame
	k.next++
}

// of returns the frame of the last request with a key that was carried out; 0 if there was none.
func (k *keys) of(rkey ib.RKey) int {
	for i := range k.last {
		if k.last[i].rkey == rkey {
			return k.last[i].frame
		}
	}
	return 0
}
