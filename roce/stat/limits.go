package stat

import "time"

const (
	// maxQPs is how many queue pairs of a process are listed; Device.NumQPs counts all.
	maxQPs = 10000
	// maxAnswer bounds the answer that a client accepts, in bytes. A queue pair takes up to 300.
	maxAnswer = 4 << 20
	// maxEndpoints bounds how many sockets of a user Find returns.
	maxEndpoints = 256
	// maxAtOnce is how many clients are answered at a time; others wait.
	maxAtOnce = 4
	// writeTime is how long a client may take to read the answer.
	writeTime = 2 * time.Second
	// acceptPause is how long to wait when the process is out of descriptors.
	acceptPause = 100 * time.Millisecond
	// nameTries is how many names are tried for a socket.
	nameTries = 4
)
