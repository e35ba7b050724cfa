// Command labd is the first process of a lab guest: it mounts what a system needs, loads the
// modules named in /lab/modules, brings the management interface up and then runs commands for the
// lab (package guestproto). It is built without cgo and is of no use outside of a guest.
package main
