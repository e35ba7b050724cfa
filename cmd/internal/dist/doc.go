// Command dist makes a release: "make dist". It builds roce, a static program, for each kind of
// machine, and the libraries of cmd/verbs against the C library of an old Debian, checks what
// symbols they need, and packs both into a tarball and a package for dpkg, with man pages,
// completions, licences, a bill of materials and checksums.
//
// The same commit and toolchain give the same bytes: names, times, owners and orders are fixed
// here. "make dist-check" builds twice, in different folders and with nothing in Go's cache the
// second time, and compares.
package main
