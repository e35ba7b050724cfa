package cc

import (
	"fmt"
	"time"
)

// Profile is the set of parameters of DCQCN's reaction point.
type Profile struct {
	Name string

	GainNum, GainDen int64 // g of the alpha average

	AlphaPeriod  time.Duration // interval of alpha updates
	InitialAlpha float64       // alpha before the first CNP

	// DecreaseGap is the least time between two rate cuts; 0 cuts on each CNP that leastGapNs
	// admits.
	DecreaseGap time.Duration
	// MaxCut bounds one cut, as a fraction of the current rate.
	MaxCut float64

	IncreasePeriod time.Duration // timer of the rate increase
	ByteCounter    int64         // bytes sent per increase step
	FastRecovery   int           // F: steps of fast recovery before the target rises

	AdditiveIncrease Rate // AI
	HyperIncrease    Rate // HAI; 0: additive increase even past F on both counters
	MinRate          Rate

	// CutOnNAK treats a sequence NAK as a CNP. ConnectX-5 and 6 do so, ConnectX-4 and E810 do not
	// (Lumina, SIGCOMM 2023).
	CutOnNAK bool
}

// check reports what is wrong with a custom profile.
func (p *Profile) check() error {
	switch {
	case p.GainNum <= 0 || p.GainDen < p.GainNum:
		return fmt.Errorf("profile %q: gain %d/%d is not in (0, 1]", p.Name, p.GainNum, p.GainDen)
	case p.AlphaPeriod <= 0 || p.IncreasePeriod <= 0 || p.ByteCounter <= 0:
		return fmt.Errorf("profile %q: periods and byte counter must be positive", p.Name)
	case p.InitialAlpha < 0 || p.InitialAlpha > 1 || p.MaxCut <= 0 || p.MaxCut >= 1:
		return fmt.Errorf("profile %q: initial alpha in [0, 1], greatest cut in (0, 1)", p.Name)
	case p.AdditiveIncrease <= 0 || p.HyperIncrease < 0 || p.MinRate < MinMinRate:
		return fmt.Errorf("profile %q: increases must be positive and the least rate at least %d bit/s",
			p.Name, MinMinRate)
	case p.DecreaseGap < 0 || p.FastRecovery < 0:
		return fmt.Errorf("profile %q: negative", p.Name)
	}
	return nil
}

// MinMinRate is the lowest permitted MinRate: a packet of 4096 bytes then takes a third of a
// second, and a QP still learns when congestion is over.
const MinMinRate = 100_000

// Paper returns the parameters of the DCQCN paper, from the table of section 5.
func Paper() Profile {
	return Profile{
		Name:    "paper",
		GainNum: 1, GainDen: 256,
		AlphaPeriod: 55 * time.Microsecond, InitialAlpha: 1,
		MaxCut:         0.5,
		IncreasePeriod: 55 * time.Microsecond, ByteCounter: 10e6, FastRecovery: 5,
		AdditiveIncrease: 40 * Mbps,
		MinRate:          1 * Mbps, // the paper names no floor; a QP at rate 0 would never learn
	}
}

// Mellanox returns the initial parameters of ConnectX NICs: dce_tcp_g 1019, dce_tcp_rtt 1,
// initial_alpha_value 1023, rate_reduce_monitor_period 4, rpg_time_reset 300, rpg_byte_reset 32767
// (of 64 bytes), rpg_threshold 1, rpg_ai_rate 5, rpg_hai_rate 50, rpg_min_rate 1, rpg_min_dec_fac
// 50.
func Mellanox() Profile {
	return Profile{
		Name:    "mellanox",
		GainNum: 5, GainDen: 1024,
		AlphaPeriod: time.Microsecond, InitialAlpha: 1023.0 / 1024,
		DecreaseGap: 4 * time.Microsecond, MaxCut: 0.5,
		IncreasePeriod: 300 * time.Microsecond, ByteCounter: 32767 * 64, FastRecovery: 1,
		AdditiveIncrease: 5 * Mbps, HyperIncrease: 50 * Mbps,
		MinRate: 1 * Mbps,
	}
}
