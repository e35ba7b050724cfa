package peer

// Steps runs what consists of many steps, each of which may fail: it ends at the first [Must] that
// has an error, which Steps returns. So a script reads as its steps.
func Steps(script func()) (err error) {
	defer func() {
		end := recover()
		if f, ok := end.(failure); ok {
			err = f.error
		} else if end != nil {
			panic(end)
		}
	}()
	script()
	return nil
}

// failure is what ends a script.
type failure struct{ error }

// Must ends the script that calls it, in the same goroutine, if there is an error.
func Must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Got is Must for a call that has a result.
func Got[T any](v T, err error) T {
	Must(err)
	return v
}
