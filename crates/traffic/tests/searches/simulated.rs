//! Devices whose limits are known, as `measure` closures see them. `mlrsearch.py` has the same ones for FD.io's
//! package: a change here is one there too.

use std::time::Duration;

use serde::Serialize;
use traffic::search::{Invalid, Load, Measured, TrialResult};

/// How a device treats a load.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Behaviour {
    /// Forwards up to the limit and no frame more.
    Sharp {
        limit: u64,
    },
    /// Nothing is lost up to the limit; above it the loss ratio is the excess over the limit times
    /// `steepness` in per cent, up to all.
    Lossy {
        limit: u64,
        steepness: u64,
    },
    /// Sharp, and below the limit one trial in `one_in` loses a few frames.
    Occasional {
        limit: u64,
        one_in: u64,
    },
    /// Sharp, the limit falling by `per_second` with each second of traffic, down to a tenth.
    Drifting {
        limit: u64,
        per_second: u64,
    },
    /// Sharp, the limit being another one in each trial, evenly up to `ppm` millionths around `limit`.
    Noisy {
        limit: u64,
        ppm: u64,
    },
    /// Sharp; one trial in `one_in` has the limit `slower`.
    TwoModes {
        limit: u64,
        slower: u64,
        one_in: u64,
    },
    /// Sharp; above `from` one second of traffic in `one_in` loses 100 frames, so that a long trial is lossy
    /// where a short one is not.
    Pausing {
        limit: u64,
        from: u64,
        one_in: u64,
    },
    NoLoss,
    TotalLoss,
}

/// SplitMix64: small enough to be written twice.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}

/// A device behind a generator that may fail.
pub struct Device {
    behaviour: Behaviour,
    /// One trial in this many is invalid; 0 for none.
    invalid_one_in: u64,
    random: Random,
    pub asked: Vec<(Load, Duration)>,
    pub traffic: Duration,
}

impl Device {
    pub fn new(behaviour: Behaviour) -> Device {
        Device { behaviour, invalid_one_in: 0, random: Random(7), asked: Vec::new(), traffic: Duration::ZERO }
    }

    pub fn seeded(mut self, seed: u64) -> Device {
        self.random = Random(seed);
        self
    }

    pub fn invalid_one_in(mut self, one_in: u64) -> Device {
        self.invalid_one_in = one_in;
        self
    }

    /// Frames of `offered` that are forwarded in a trial that starts now.
    fn forwarded(&mut self, load: Load, duration: Duration, offered: u64) -> u64 {
        let rate = load.frames_per_second();
        let sharp = |limit: u64| Load::new(limit).map_or(0, |limit| limit.frames_in(duration)).min(offered);
        match self.behaviour {
            Behaviour::Sharp { limit } => sharp(limit),
            Behaviour::Lossy { limit, steepness } => {
                let excess = u128::from(rate.saturating_sub(limit));
                let lost = u128::from(offered) * excess * u128::from(steepness);
                let lost = lost.div_ceil(u128::from(limit) * 100);
                offered.saturating_sub(u64::try_from(lost).unwrap_or(u64::MAX))
            }
            Behaviour::Occasional { limit, one_in } => {
                let lost = if self.random.one_in(one_in) { 1 + self.random.next() % 9 } else { 0 };
                sharp(limit).saturating_sub(lost)
            }
            Behaviour::Drifting { limit, per_second } => {
                let fallen = per_second.saturating_mul(self.traffic.as_secs());
                sharp(limit.saturating_sub(fallen).max(limit / 10))
            }
            Behaviour::Noisy { limit, ppm } => {
                let around = limit * ppm / 1_000_000;
                let more = (u128::from(2 * around) * u128::from(self.random.next() >> 32)) >> 32;
                sharp(limit - around + u64::try_from(more).unwrap())
            }
            Behaviour::TwoModes { limit, slower, one_in } => {
                sharp(if self.random.one_in(one_in) { slower } else { limit })
            }
            Behaviour::Pausing { limit, from, one_in } => {
                let seconds = duration.as_nanos().div_ceil(1_000_000_000);
                let pauses = (0..seconds).filter(|_| self.random.one_in(one_in)).count() as u64;
                sharp(limit).saturating_sub(if rate > from { 100 * pauses } else { 0 })
            }
            Behaviour::NoLoss => offered,
            Behaviour::TotalLoss => 0,
        }
    }

    pub fn measure<E>(&mut self, load: Load, duration: Duration) -> Result<Measured, E> {
        self.asked.push((load, duration));
        let offered = load.frames_in(duration).max(1);
        let received = self.forwarded(load, duration, offered);
        self.traffic += duration;
        if self.invalid_one_in > 0 && self.random.one_in(self.invalid_one_in) {
            let missed = Invalid::MissedRate { frames_due: offered, frames_sent: offered / 2 };
            return Ok(Measured::Invalid(missed));
        }
        Ok(Measured::Valid(TrialResult::new(offered, received, duration).expect("possible counts")))
    }
}

pub fn load(frames_per_second: u64) -> Load {
    Load::new(frames_per_second).expect("not zero")
}

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
