package lab

import "strings"

// machine is an architecture that guests are emulated with. A suite's name has its mark behind it,
// "bookworm-arm64", but that of amd64.
type machine struct {
	debian    string // Debian's name, which is also Go's
	libs      string // where packages put libraries
	loader    string // the dynamic loader's name, and where programs look for it
	loaderDir string
	gcc, qemu Need
	board     string // QEMU's machine and, unless a guest's configuration says otherwise, CPU
	cpu       string
	console   string
}

var amd64 = &machine{
	debian: "amd64", libs: "usr/lib/x86_64-linux-gnu", loader: "ld-linux-x86-64.so.2", loaderDir: "lib64",
	gcc: Need{"gcc", "gcc"}, qemu: Need{"qemu-system-x86_64", "qemu-system-x86"}, board: "q35", cpu: "max",
	console: "ttyS0",
}

// machines are all but amd64. Pointer authentication, which QEMU's "max" has, is slow where it is
// emulated.
var machines = []*machine{{
	debian: "arm64", libs: "usr/lib/aarch64-linux-gnu", loader: "ld-linux-aarch64.so.1", loaderDir: "usr/lib",
	gcc: Need{"aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"}, qemu: Need{"qemu-system-aarch64", "qemu-system-arm"},
	board: "virt", cpu: "cortex-a72", console: "ttyAMA0",
}}

// A suite's name may have a kernel behind it, "bookworm@6.1.0-47": then the guest has that of the
// archive's kernels instead of the suite's newest, from the suite itself, its backports or its
// security updates.
const kernelMark = "@"

// parseSuite takes the name of a guest's suite apart: Debian's name, the kernel that was chosen, or
// none, and the machine.
func parseSuite(name string) (suite, kernel string, m *machine) {
	suite, kernel, _ = strings.Cut(name, kernelMark)
	for _, m := range machines {
		if of, is := strings.CutSuffix(suite, "-"+m.debian); is {
			return of, kernel, m
		}
	}
	return suite, kernel, amd64
}

// hostTools are what the lab runs on this machine for guests of m.
func (m *machine) hostTools() []Need {
	return []Need{m.qemu, m.gcc, {"xz", "xz-utils"}, {"ip", "iproute2"}, {"dpkg-deb", "dpkg"}}
}
