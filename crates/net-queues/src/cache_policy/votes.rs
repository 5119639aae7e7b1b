//! How comparisons went.

/// How the latest comparisons of two policies went: the majority of so many decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Votes(i8);

impl Votes {
    /// Comparisons that are remembered.
    pub const LATEST: i8 = 4;
    /// All of the latest were for it.
    pub const FOR: Votes = Votes(Self::LATEST);
    /// All of the latest were against it, or there was none.
    pub const AGAINST: Votes = Votes(-Self::LATEST);
    /// So many more for it than against it.
    #[cfg(test)]
    pub const fn of(more: i8) -> Votes {
        Votes(more)
    }

    /// One more comparison.
    pub fn count(&mut self, better: bool) {
        self.0 = (self.0 + if better { 1 } else { -1 }).clamp(-Self::LATEST, Self::LATEST);
    }

    /// Whether the majority is for it.
    pub fn is_for(self) -> bool {
        self.0 > 0
    }

    /// Whether all of the latest say the same.
    pub fn agree(self) -> bool {
        self == Self::FOR || self == Self::AGAINST
    }
}
