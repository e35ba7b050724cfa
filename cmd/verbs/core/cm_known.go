package main

import (
	"net/netip"
	"sync"
	"time"
)

// Some servers listen anew for each connection of a client: that of perftest ends one listener and
// makes the next, while its client is on its way already. It counts on the client to take longer,
// which has memory to pin and a kernel to ask; here it has neither. Where this process was
// connected lately a refusal because nobody listens is no answer yet.
const (
	knownFor   = 30 * time.Second
	listenWait = time.Second
	mostKnown  = 1024 // more than that are forgotten, all of them
)

// serviceList is a list of services with the times at which there was a connection.
type serviceList struct {
	mu sync.Mutex
	at map[netip.AddrPort]time.Time
}

var knownServices = serviceList{at: map[netip.AddrPort]time.Time{}}

// add notes a connection to a service.
func (l *serviceList) add(service netip.AddrPort, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.at[service]; !ok && len(l.at) >= mostKnown {
		clear(l.at)
	}
	l.at[service] = now
}

// wait returns how long to wait for a service to listen.
func (l *serviceList) wait(service netip.AddrPort, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.at[service]
	switch {
	case !ok:
		return 0
	case now.Sub(at) > knownFor:
		delete(l.at, service)
		return 0
	}
	return listenWait
}

// nowKnown notes that the connection which the ID has asked for is there.
func (id *cmID) nowKnown() {
	id.mu.Lock()
	service := id.service
	id.mu.Unlock()
	if service.IsValid() {
		knownServices.add(service, time.Now())
	}
}
