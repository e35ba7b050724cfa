package perftest

import (
	"fmt"
	"strconv"
	"strings"
)

// version is what this side calls itself in the exchange: Debian 12's
// perftest, 4.5+0.17. Every later one talks to it; from 6.28 on they add a
// message to the exchange, but only if both sides are that new.
const version = "6.06"

const (
	versionBytes  = 16 // the version, padded with NULs
	oldestVersion = 5.70
)

// versionMessage returns the first message of the exchange.
func versionMessage() []byte {
	msg := make([]byte, versionBytes)
	copy(msg, version)
	return msg
}

// parseVersion reads the peer's version, a decimal number that may be followed
// by anything, and refuses one whose exchange is different.
func parseVersion(msg []byte) (string, error) {
	text, _, _ := strings.Cut(string(msg), "\x00")
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.') {
		end++
	}
	v, err := strconv.ParseFloat(text[:end], 64)
	if err != nil {
		return "", fmt.Errorf("the peer's version %q is not a number: is it a perftest of the same kind?", text)
	}
	if v < oldestVersion {
		return "",
			fmt.Errorf("the peer's version %s is older than %.2f: its exchange is different", text[:end], oldestVersion)
	}
	return text[:end], nil
}
