use std::fmt;
use std::time::Duration;

use super::nanoseconds;
use super::positive::positive;

positive! {
    /// An intended load in frames per second, at least one. The caller defines whether it is the load of one
    /// interface or the sum over all, the same for all trials of a search.
    Load,
    /// Frames per second.
    frames_per_second
}

impl Load {
    /// The frames that are due in a trial of this length, rounded down.
    pub fn frames_in(self, duration: Duration) -> u64 {
        let frames = u128::from(self.0.get()) * u128::from(nanoseconds::of(duration)) / 1_000_000_000;
        u64::try_from(frames).unwrap_or(u64::MAX)
    }

    /// The time that this many frames take at this rate, rounded up to a nanosecond.
    pub fn time_for(self, frames: u64) -> Duration {
        let nanoseconds = (u128::from(frames) * 1_000_000_000).div_ceil(u128::from(self.0.get()));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_time_are_exact() {
        let load = Load::new(14_880_952).unwrap();
        assert_eq!(load.frames_in(Duration::from_secs(60)), 892_857_120);
        assert_eq!(load.frames_in(Duration::from_nanos(1)), 0);
        assert_eq!(load.time_for(14_880_952), Duration::from_secs(1));
        assert_eq!(load.time_for(1), Duration::from_nanos(68));
        assert_eq!(Load::new(0), None);
    }
}
