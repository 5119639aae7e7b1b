//! How often an idle TAP is polled. Each poll is a system call, and other sources wait for it.

/// The most polls that are left out between two. A worker with nothing else to do makes this many in a few
/// microseconds, and sleeps until the TAP wakes it; a worker that is busy elsewhere takes at most this many bursts in
/// between.
const MOST: u32 = 15;

/// The number of empty polls, and of polls to skip because of them.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The number of polls that were skipped after the last one.
    pause: u32,
    /// The number of polls still to skip.
    left: u32,
}

impl Patience {
    /// Whether to poll now.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        let over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        over
    }

    /// Notes that a poll found nothing.
    #[inline]
    pub fn in_vain(&mut self) {
        self.pause = (2 * self.pause + 1).min(MOST);
        self.left = self.pause;
    }

    /// Notes that there are frames again: every poll is made.
    #[inline]
    pub fn end(&mut self) {
        *self = Patience::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks `asked` times; returns the numbers of the polls that were made.
    fn looks(patience: &mut Patience, asked: u32) -> Vec<u32> {
        let mut looks = Vec::new();
        for at in 0..asked {
            if patience.is_over() {
                patience.in_vain();
                looks.push(at);
            }
        }
        looks
    }

    #[test]
    fn a_silent_tap_is_asked_less_and_less_often_and_at_once_when_it_speaks() {
        let mut patience = Patience::default();
        assert_eq!(looks(&mut patience, 60), [0, 2, 6, 14, 30, 46]);
        patience.end();
        assert_eq!(looks(&mut patience, 3), [0, 2]);
    }
}
