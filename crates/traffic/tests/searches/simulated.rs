//! Devices whose limits are known, as `measure` closures see them.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use traffic::search::{Invalid, Load, Measured, TrialResult};

/// How a device treats a load.
#[derive(Clone, Copy, Debug)]
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
        one_in: u32,
    },
    /// Sharp, the limit falling by `per_second` with each second of traffic, down to a tenth.
    Drifting {
        limit: u64,
        per_second: u64,
    },
    NoLoss,
    TotalLoss,
}

/// A device behind a generator that may fail.
pub struct Device {
    behaviour: Behaviour,
    /// One trial in this many is invalid; 0 for none.
    invalid_one_in: u32,
    random: StdRng,
    pub asked: Vec<(Load, Duration)>,
    pub traffic: Duration,
}

impl Device {
    pub fn new(behaviour: Behaviour) -> Device {
        let random = StdRng::seed_from_u64(7);
        Device { behaviour, invalid_one_in: 0, random, asked: Vec::new(), traffic: Duration::ZERO }
    }

    pub fn seeded(mut self, seed: u64) -> Device {
        self.random = StdRng::seed_from_u64(seed);
        self
    }

    pub fn invalid_one_in(mut self, one_in: u32) -> Device {
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
                let disturbed = self.random.random_range(0..one_in) == 0;
                sharp(limit).saturating_sub(if disturbed { self.random.random_range(1..10) } else { 0 })
            }
            Behaviour::Drifting { limit, per_second } => {
                let fallen = per_second.saturating_mul(self.traffic.as_secs());
                sharp(limit.saturating_sub(fallen).max(limit / 10))
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
        if self.invalid_one_in > 0 && self.random.random_range(0..self.invalid_one_in) == 0 {
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
