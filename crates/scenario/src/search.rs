//! The search for the highest number of users that are served in time. It runs no trials; the caller does.

/// Doubles the number of users until a trial fails, then halves the gap. The caller runs a trial with
/// [`Search::next`] users and tells [`Search::judge`] whether all its ticks were in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The highest number that was served in time; 0 if there is none.
    fits: u32,
    /// The lowest number that was not.
    fails: Option<u32>,
    next: u32,
    most: u32,
    /// The gap at which the search ends, in percent of `fits`.
    resolution_percent: u32,
}

impl Search {
    /// A search that begins with `first` users and tries at most `most`.
    pub fn new(first: u32, most: u32, resolution_percent: u32) -> Self {
        Search {
            fits: 0,
            fails: None,
            next: first.clamp(1, most.max(1)),
            most: most.max(1),
            resolution_percent,
        }
    }

    /// The users of the next trial; `None` when the search is finished.
    pub fn next(&self) -> Option<u32> {
        (self.next > 0).then_some(self.next)
    }

    /// The highest number that was served in time, and whether it is the maximum of the search.
    pub fn result(&self) -> (u32, bool) {
        (self.fits, self.fails.is_none())
    }

    /// Takes the result of the last trial.
    pub fn judge(&mut self, is_in_time: bool) {
        match is_in_time {
            true => self.fits = self.fits.max(self.next),
            false => self.fails = Some(self.fails.map_or(self.next, |fails| fails.min(self.next))),
        }
        self.next = match self.fails {
            None if self.fits >= self.most => 0,
            None => self.fits.saturating_mul(2).min(self.most),
            Some(fails) => {
                let gap = fails.saturating_sub(self.fits);
                let enough = gap <= 1
                    || u64::from(gap) * 100 <= u64::from(self.fits) * u64::from(self.resolution_percent);
                if enough { 0 } else { self.fits + gap / 2 }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(first: u32, most: u32, resolution: u32, limit: u32) -> ((u32, bool), u32) {
        let mut search = Search::new(first, most, resolution);
        let mut trials = 0;
        while let Some(users) = search.next() {
            search.judge(users <= limit);
            trials += 1;
            assert!(trials < 100);
        }
        (search.result(), trials)
    }

    proptest! {
        #[test]
        fn it_finds_the_limit(first in 1..100u32, most in 1..60_000u32, limit in 0..70_000u32) {
            let ((fits, all), trials) = search(first, most, 0, limit);
            prop_assert_eq!((fits, all), (limit.min(most), limit >= most));
            prop_assert!(trials < 40);
        }

        #[test]
        fn or_nearly_so_in_fewer_trials(limit in 8..50_000u32) {
            let ((fits, _), trials) = search(8, 60_000, 5, limit);
            prop_assert!(fits <= limit && limit - fits <= 1 + fits / 20, "{fits} of {limit}");
            prop_assert!(trials < 22);
        }
    }
}
