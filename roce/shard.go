package roce

import (
	"context"
	"math"
	"runtime"

	"github.com/goroce/goroce/transport"
)

// The shell of the engine: everything that happens between the link and the
// engine is in this file. The order after any input or command is the engine's
// contract: transmit, events, timers.

// flush sends what the engine has to send, hands out its events and notes its
// next timer, and does the same for the communication manager, which sends and
// receives through the engine. mu is held.
func (d *Device) flush(now int64) {
	if d.hold.held.Load() {
		d.hold.held.Store(false)
		d.hold.penalty = 0
	}
	d.drain(now)
	for d.cm != nil && d.cm.ready {
		d.cm.run(now)
		d.drain(now)
	}
	d.noteTimers()
}

// noteTimers notes when the engine's and the communication manager's next timer
// is due. mu is held.
func (d *Device) noteTimers() {
	at, ok := d.eng.NextTimeout()
	if d.cm != nil && d.cm.next < math.MaxInt64 && (!ok || d.cm.next < at) {
		at, ok = d.cm.next, true
	}
	d.schedule(at, ok)
}

// drain sends what the engine has to send and hands out its events. mu is held.
func (d *Device) drain(now int64) {
	if d.link.Blocked() {
		d.link.Send(nil)
	}
	for !d.link.Blocked() {
		n := d.pollTransmit(now)
		if n == 0 {
			break
		}
		d.send(now, d.tx[:n])
	}
	d.join.sent()
	d.dispatchAll()
}

// dispatchAll hands out the engine's events. mu is held.
func (d *Device) dispatchAll() {
	for {
		ev, ok := d.eng.PollEvent()
		if !ok {
			break
		}
		d.dispatch(ev)
	}
}

// schedule notes when timers are due. mu is held.
func (d *Device) schedule(at int64, ok bool) {
	if d.driven != nil {
		if alarm, set := d.alarms.next(); set && (!ok || alarm < at) {
			at, ok = alarm, true
		}
		d.driven.SetTimer(at, ok)
		return
	}
	if !ok {
		at = math.MaxInt64
	}
	if d.nextTimer.Load() != at {
		d.nextTimer.Store(at)
	}
	if d.blocked && (at < d.wakeTime || d.link.Blocked()) {
		d.blocked = false
		d.link.Wake()
	}
}

// dispatch gives an event to whoever it is for. mu is held; nothing blocks.
func (d *Device) dispatch(ev transport.Event) {
	if ev.Type == transport.EventCompletion {
		if cq, ok := ev.CQ.UserData().(*CQ); ok {
			cq.completionEvent()
		} else if d.cm != nil {
			d.cm.ready = true
		}
		return
	}
	out := Event{Type: ev.Type}
	if ev.QP != nil {
		out.QP, _ = ev.QP.UserData().(*QP)
		if out.QP != nil && out.QP.id != nil && ev.Type == EventCommEstablished {
			out.QP.id.commEstablished()
			return
		}
		if out.QP == nil {
			return // queue pair 1, of the communication manager
		}
	}
	if ev.CQ != nil {
		out.CQ, _ = ev.CQ.UserData().(*CQ)
	}
	if ev.SRQ != nil {
		out.SRQ, _ = ev.SRQ.UserData().(*SRQ)
	}
	d.async.push(out)
}

// progress receives one batch, handles it, runs timers when they are due and what
// had come by then has been handled, and sends
// what waited in the link, and messages that wait for others. It reports
// whether there was anything to do. After packets alone, answers, called with
// the lock held, says whether the application is likely to send something next.
// rxMu is held.
func (d *Device) progress(answers func() bool) (bool, error) {
	looked := false
	for gathered := 0; ; {
		n, err := d.link.Recv(d.rx)
		if err != nil {
			return false, err
		}
		now := d.link.Now()
		timer := d.timersDue(now)
		joined := d.join.due()
		if n == 0 && gathered == 0 && !timer && !joined && !d.link.Blocked() {
			return false, nil
		}
		gathered += n
		d.mu.Lock()
		if d.shut {
			d.mu.Unlock()
			return true, nil
		}
		d.hold.woke = false
		d.handle(now, d.rx[:n])
		if timer {
			d.tryTimers(now, n)
		}
		d.dispatchAll()
		switch {
		case n == 0 && d.horizon.set && !looked:
			d.mu.Unlock()
			looked = true
			continue // a look more, and the timers can run
		case n > 0 && gathered < ackGather && !timer && d.gathers():
			d.mu.Unlock()
			continue
		case !timer && answers() && d.tryHold():
			d.noteTimers()
		default:
			d.flush(now)
		}
		d.mu.Unlock()
		return true, nil
	}
}

// gathers reports whether what came in asks for nothing but acknowledgements,
// and nobody was woken by it: then what is at hand in the link, if anything,
// comes first, and is acknowledged with it. mu is held.
func (d *Device) gathers() bool {
	return d.mode == modeEvent && !d.hold.woke && d.eng.OnlyAcks()
}

// wokeSomeone is for progress: what came in was waited for. mu is held.
func (d *Device) wokeSomeone() bool { return d.hold.woke }

// never is for progress.
func never() bool { return false }

// loop is the goroutine of an event-driven device: receive while there is
// something, spin for a little, then block in the system call.
func (d *Device) loop() {
	defer close(d.loopDone)
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	last := d.link.Now()
	idleSince, spinAgain := last, last
	answers := d.wokeSomeone
	for !d.isClosed() {
		busy, err := d.progress(answers)
		if err != nil {
			d.fail(err)
			return
		}
		// Whoever was woken by what came in runs first, here: a goroutine that spins
		// or blocks in a system call keeps its processor from the others, until the
		// runtime notices (20 us to 10 ms later). With nobody to run this costs
		// 0.1 us.
		runtime.Gosched()
		d.endHold()
		if !busy {
			d.idle() // may give way to other threads, too
		}
		now := d.link.Now()
		if !busy && now-last > preemptedNs {
			// There is other work for this processor, and a thread that spins gets
			// less of it than one that sleeps and is woken.
			spinAgain = now + spinPauseNs
		}
		last = now
		switch {
		case busy:
			idleSince = now
		case now-idleSince >= d.spinNs || now < spinAgain:
			if err := d.block(now); err != nil {
				d.fail(err)
				return
			}
			last = d.link.Now()
			idleSince = last
		}
	}
}

// block waits in the link until something happens.
func (d *Device) block(now int64) error {
	d.mu.Lock()
	if d.link.Blocked() || d.join.n.Load() != 0 {
		d.flush(now)
	}
	next := d.nextTimer.Load()
	// The time to return at is only ever made later when it has passed. A timer
	// that comes and goes with every message, as the ACK timer does, would
	// otherwise need a Wake for every message posted.
	if d.wakeTime <= now || next < d.wakeTime {
		d.wakeTime = next
	}
	timeout := int64(-1)
	if d.wakeTime != math.MaxInt64 {
		timeout = max(d.wakeTime-now, 0)
	}
	d.blocked = true
	d.mu.Unlock()

	err := d.link.Wait(timeout)

	d.mu.Lock()
	d.blocked = false
	if d.link.Blocked() {
		d.flush(d.link.Now())
	}
	d.mu.Unlock()
	return err
}

// fail closes the device from inside because its link is broken.
func (d *Device) fail(err error) {
	if d.isClosed() {
		return
	}
	d.fatalErr.CompareAndSwap(nil, &err)
	d.async.push(Event{Type: EventPortError})
	go d.Close() // which waits for the caller's goroutine
}

// poll makes progress from the caller's goroutine, as progress does. Only one
// caller does at a time; the others have nothing to do.
func (d *Device) poll(answers func() bool) {
	d.endHold()
	if !d.rxMu.TryLock() {
		return
	}
	_, err := d.progress(answers)
	d.rxMu.Unlock()
	if err != nil && !d.isClosed() {
		d.fatalErr.CompareAndSwap(nil, &err)
		d.async.push(Event{Type: EventPortError})
		d.Close()
	}
}

// drivenProgress is called by the simulation when a packet has arrived or a
// timer is due.
func (d *Device) drivenProgress() {
	defer func() {
		if d.alarmDue() {
			d.runAlarms()
		}
	}()
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	for {
		n, err := d.link.Recv(d.rx)
		if err != nil {
			return
		}
		d.mu.Lock()
		if d.shut {
			d.mu.Unlock()
			return
		}
		now := d.link.Now()
		d.handle(now, d.rx[:n])
		if n == 0 {
			d.runTimers(now, now)
		}
		d.flush(now)
		d.mu.Unlock()
		if n == 0 {
			return
		}
	}
}

// pause lets a goroutine that waits for something do its part: block until
// notify, receive packets, or let simulated time pass. It returns when it is worth looking
// again, or with the error of the context or ErrClosed. tries counts the calls
// of one wait.
func (d *Device) pause(ctx context.Context, notify <-chan struct{}, tries int) error {
	if d.unmade() {
		return errZero
	}
	switch d.mode {
	case modePolling:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.closed:
			return d.closedErr()
		case <-notify:
		default:
			d.poll(never)
			if tries > 0 {
				d.idle()
			}
		}
		return nil
	case modeDriven:
		if d.sched != nil {
			return d.pauseTurn(ctx, notify)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.closed:
			return d.closedErr()
		case <-notify:
			return nil
		default:
		}
		changed := d.driven.Changed()
		if d.driven.Step() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.closed:
			return d.closedErr()
		case <-notify:
		case <-changed:
		}
		return nil
	}
	select {
	case <-notify:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.closed:
		return d.closedErr()
	}
}
