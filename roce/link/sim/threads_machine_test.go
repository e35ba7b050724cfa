package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/goroce/goroce/roce/link"
)

// Costs are the costs of operations on a [Machine].
type Costs struct {
	Syscall time.Duration // the system call itself: a send, a receive, a wake, a look that finds nothing
	Packet  time.Duration // extra for each packet sent or handled

	// Wakeup is how long a thread that is woken on an idle CPU takes to run; the fraction WakeShare
	// of it, in [0, 1], counts as its CPU time. Waking costs the waker WakeCall.
	Wakeup    time.Duration
	WakeShare float64
	WakeCall  time.Duration

	Switch    time.Duration // from one thread to another that was waiting for the CPU
	Goroutine time.Duration // from one goroutine to another
	Search    time.Duration // how long a thread of Go's runtime looks for goroutines before it sleeps
	Slack     time.Duration // how much longer a thread sleeps than it asks for

	// Retake is how long a thread may be in a system call before Go's runtime gives its processor
	// to another one, if goroutines wait for one.
	Retake time.Duration
}

// MachineConfig describes a machine. Fields that are 0 get the values of a typical machine.
type MachineConfig struct {
	CPUs int
	Costs
	Slice   time.Duration // how long a thread may run while others wait that have had less
	Preempt time.Duration // by how much less a woken thread must have had to run at once
}

func (c *MachineConfig) setDefaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	c.CPUs = max(c.CPUs, 1)
	set(&c.Syscall, 500*time.Nanosecond)
	set(&c.Packet, 500*time.Nanosecond)
	set(&c.Wakeup, 10*time.Microsecond)
	set(&c.WakeCall, time.Microsecond)
	set(&c.Switch, 1500*time.Nanosecond)
	set(&c.Goroutine, 200*time.Nanosecond)
	set(&c.Search, 2*time.Microsecond)
	set(&c.Slack, 50*time.Microsecond)
	set(&c.Retake, 20*time.Microsecond)
	set(&c.Slice, 3*time.Millisecond)
	set(&c.Preempt, time.Millisecond)
	if c.WakeShare == 0 {
		c.WakeShare = 0.5
	}
}

// Machine is a computer: CPUs, and processes with threads that run on them.
type Machine struct {
	d     *threads
	c     MachineConfig
	cpus  []*cpu
	procs []*Process
	ready []*thread // waiting for a CPU
	ids   int       // of threads
	fair  int64     // the least CPU time among threads that want a CPU
}

// Machine makes a machine. It is for [OnThreads].
func (f *Fabric) Machine(c MachineConfig) *Machine {
	d, ok := f.clock.(*threads)
	if !ok {
		panic("sim: a Machine is for OnThreads")
	}
	c.setDefaults()
	m := &Machine{d: d, c: c}
	for i := range c.CPUs {
		m.cpus = append(m.cpus, &cpu{index: i})
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.d.machines = append(m.d.machines, m)
	return m
}

// CPUs returns the number of CPUs.
func (m *Machine) CPUs() int { return len(m.cpus) }

// ProcessConfig describes a process.
type ProcessConfig struct {
	Procs int   // GOMAXPROCS; 0 is the number of its CPUs
	CPUs  []int // the CPUs it may run on; nil is all
	// Quota is how much CPU time it may have in each 100 ms; 0 is unlimited.
	Quota time.Duration
}

// quotaPeriod is the period of the kernel's control groups.
const quotaPeriod = int64(100 * time.Millisecond)

// Process is a Go program on a machine. Its goroutines are real; they pay for their costs in
// virtual time, at calls of its links and of its methods.
type Process struct {
	m     *Machine
	d     *threads
	c     ProcessConfig
	links []*hosted

	// Of the driver.
	free   int // unused processors of Go's runtime
	queue  []*task
	idle   []*thread // without work
	fetch  *thread   // a thread woken to take goroutines from the queue
	inCall []*thread // asleep in a system call, with a processor
	ran    int64     // CPU time
	orphan int64     // owed by unknown goroutines

	had       int64 // CPU time in the period
	period    int64
	throttled bool
}

// Process starts a process.
func (m *Machine) Process(c ProcessConfig) *Process {
	for _, i := range c.CPUs {
		if i < 0 || i >= len(m.cpus) {
			panic(fmt.Sprintf("sim: there is no CPU %d", i))
		}
	}
	if c.Procs == 0 {
		if c.Procs = len(c.CPUs); c.Procs == 0 {
			c.Procs = len(m.cpus)
		}
	}
	p := &Process{m: m, d: m.d, c: c, free: c.Procs}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.procs = append(m.procs, p)
	return p
}

// Neighbour starts a process that computes on a CPU, for a share of the time, in (0, 1], until the
// test ends.
func (m *Machine) Neighbour(on int, share float64) {
	p := m.Process(ProcessConfig{Procs: 1, CPUs: []int{on}})
	const round = 10 * time.Millisecond
	works := time.Duration(share * float64(round))
	m.d.running.Go(func() {
		p.Resumed()
		for !m.d.over() {
			p.Work(works)
			if works < round {
				p.Sleep(round - works)
			}
		}
	})
}

// Link attaches a device of the process to the fabric: one with goroutines, timers and waits as on
// a real link.
func (p *Process) Link(addrs ...netip.Addr) (link.Link, error) {
	l, err := p.d.f.Link(addrs...)
	if err != nil {
		return nil, err
	}
	h := &hosted{Process: p, l: l}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.links = append(p.links, h)
	return h, nil
}

// Go starts a goroutine of the process.
func (p *Process) Go(f func()) {
	go func() {
		p.Resumed()
		f()
	}()
}

// Work computes for a time.
func (p *Process) Work(d time.Duration) { p.park(ask{kind: works, work: int64(d), app: true}) }

// Call makes a system call that takes a time and does not use the fabric.
func (p *Process) Call(d time.Duration) { p.park(ask{kind: works, work: int64(d)}) }

// Sleep lets time pass, as time.Sleep does in a program.
func (p *Process) Sleep(d time.Duration) {
	time.Sleep(d)
	p.Resumed()
}

// Resumed waits for a turn on a processor and a CPU. A goroutine calls it first when it begins, or
// when another one or a timer has woken it.
func (p *Process) Resumed() { p.park(ask{kind: works, resumed: true}) }

// CPUTime returns the CPU time of the process so far.
func (p *Process) CPUTime() time.Duration {
	return time.Duration(p.ProcessRan())
}

// LongestWait returns the longest time for which a packet has waited in a link of the process while
// the process had what it needs to receive it: a CPU, a processor of Go's runtime, and some of its
// quota.
func (p *Process) LongestWait() time.Duration {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	longest := int64(0)
	for _, h := range p.links {
		longest = max(longest, h.longest)
	}
	return time.Duration(longest)
}

// Faults returns violations that the links of the process have seen, such as two concurrent
// receives.
func (p *Process) Faults() (all []string) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	for _, h := range p.links {
		all = append(all, h.faults...)
	}
	return all
}

// may reports whether the process may run on a CPU.
func (p *Process) may(c *cpu) bool { return len(p.c.CPUs) == 0 || slices.Contains(p.c.CPUs, c.index) }
