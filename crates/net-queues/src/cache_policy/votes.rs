//! Results of the latest comparisons.

/// The results of the latest comparisons of two policies; their majority decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Votes(i8);

impl Votes {
    /// The number of comparisons that are remembered.
    pub const LATEST: i8 = 4;
    /// All of the latest comparisons were in favour.
    pub const FOR: Votes = Votes(Self::LATEST);
    /// All of the latest comparisons were against, or there was no comparison.
    pub const AGAINST: Votes = Votes(-Self::LATEST);
    /// Votes with `more` more in favour than against.
    #[cfg(test)]
    pub const fn of(more: i8) -> Votes {
        Votes(more)
    }

    /// Adds the result of a comparison.
    pub fn count(&mut self, better: bool) {
        self.0 = (self.0 + if better { 1 } else { -1 }).clamp(-Self::LATEST, Self::LATEST);
    }

    /// Whether the majority is in favour.
    pub fn is_for(self) -> bool {
        self.0 > 0
    }

    /// Whether all of the latest comparisons agree.
    pub fn agree(self) -> bool {
        self == Self::FOR || self == Self::AGAINST
    }
}
