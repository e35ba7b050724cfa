package sockio

import (
	"fmt"

	"github.com/goroce/goroce/transport/edge"
)

// maxSocketBuffer is the largest socket buffer to ask for, in bytes: the kernel counts in 32 bits,
// and doubles it.
const maxSocketBuffer = 1 << 30

// CheckOption returns an error that names an option of a link if it is not from 0 to most.
func CheckOption(name string, n, most int) error {
	if n < 0 || n > most {
		return &edge.ArgError{Op: "open", Arg: name, Why: fmt.Sprintf("%d, not 0 to %d", n, most)}
	}
	return nil
}

// CheckBuffers checks the options that all links with sockets have.
func CheckBuffers(socketBufferBytes, rxBuffers int) error {
	if err := CheckOption("SocketBufferBytes", socketBufferBytes, maxSocketBuffer); err != nil {
		return err
	}
	return CheckOption("RxBuffers", rxBuffers, MaxReadBatch)
}
