//! How often a silent TAP is asked: each look is a system call, and other sources wait for it.

/// Looks that are left out between two, at most. A worker with nothing else to do makes so many in a few microseconds,
/// and sleeps until the TAP wakes it; one that is busy elsewhere takes at most so many bursts in between.
const MOST: u32 = 15;

/// Looks in vain, and how many are left out for them.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Left out after the last look.
    pause: u32,
    /// Still to be left out.
    left: u32,
}

impl Patience {
    /// Whether to look now.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        let over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        over
    }

    /// A look found nothing.
    #[inline]
    pub fn in_vain(&mut self) {
        self.pause = (2 * self.pause + 1).min(MOST);
        self.left = self.pause;
    }

    /// There is something, or there was: every look counts.
    #[inline]
    pub fn end(&mut self) {
        *self = Patience::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many times asked; when it was looked.
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
