// Package perdevice keeps what packages above verbs have on a device: its connections, what
// lingers, and the like. The device does not know of it.
package perdevice
