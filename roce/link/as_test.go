package link

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type bare struct{ Link }

type wrapped struct{ Link }

func (w wrapped) Unwrap() Link { return w.Link }

// As looks through wrappers, as far as they go.
func TestAs(t *testing.T) {
	inner := bare{}
	outer := wrapped{wrapped{inner}}
	b, ok := As[bare](outer)
	require.True(t, ok)
	require.Equal(t, inner, b)
	w, ok := As[wrapped](outer)
	require.True(t, ok)
	require.Equal(t, outer, w, "the first")
	_, ok = As[Slotted](outer)
	require.False(t, ok)
	_, ok = As[wrapped](inner)
	require.False(t, ok)
	_, ok = As[bare](nil)
	require.False(t, ok)
	_, ok = As[bare](wrapped{nil})
	require.False(t, ok)
}
