package peer

import (
	"fmt"
	"slices"
	"strings"
)

// Profile is a set of expectations. A check says on its row what it rests on.
type Profile string

// The profiles.
const (
	// ProfileSpec expects what the specification says, and takes all that it leaves open.
	ProfileSpec Profile = "spec"
	// ProfileRXE expects the deviations of Linux' rdma_rxe that were seen on 6.1 and 6.12.
	ProfileRXE Profile = "rxe"
	// ProfileConnectX expects what has been published of NVIDIA's ConnectX cards.
	ProfileConnectX Profile = "connectx"
	// ProfileGoroce expects what the specification says, and this module's own choices: timers,
	// probes, NAKs.
	ProfileGoroce Profile = "goroce"
)

// profiles returns all profiles.
func profiles() []Profile {
	return []Profile{ProfileSpec, ProfileRXE, ProfileConnectX, ProfileGoroce}
}

// ParseProfile returns the profile of a name.
func ParseProfile(s string) (Profile, error) {
	if p := Profile(s); slices.Contains(profiles(), p) {
		return p, nil
	}
	var names []string
	for _, p := range profiles() {
		names = append(names, string(p))
	}
	return "", fmt.Errorf("%q is not a profile: use one of %s", s, strings.Join(names, ", "))
}

// profileOf guesses the profile from the name of a kernel driver or of a device: rxe0, mlx5_0.
func profileOf(device string) Profile {
	switch {
	case strings.HasPrefix(device, "rxe"), device == "rdma_rxe":
		return ProfileRXE
	case strings.HasPrefix(device, "mlx5"), strings.HasPrefix(device, "mlx4"):
		return ProfileConnectX
	case strings.HasPrefix(device, "goroce"):
		return ProfileGoroce
	}
	return ProfileSpec
}
