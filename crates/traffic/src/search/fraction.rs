use serde::{Deserialize, Serialize};

/// A fraction from 0 to below 1, exact to one part in a billion: a loss ratio, an exceed ratio (both below one, RFC
/// 9971 "Goal Loss Ratio" and "Goal Exceed Ratio"), or a width relative to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Fraction(u32);

/// The serialised form, with its unit.
#[derive(Serialize, Deserialize)]
struct Wire {
    parts_per_billion: u32,
}

impl Fraction {
    pub(super) const WHOLE: u32 = 1_000_000_000;

    /// The fraction 0; as a loss ratio, zero loss.
    pub const ZERO: Fraction = Fraction(0);
    /// One half.
    pub const HALF: Fraction = Fraction(500_000_000);

    /// From parts per billion; `None` for 1 or more.
    pub const fn from_parts_per_billion(parts: u32) -> Option<Fraction> {
        if parts < Self::WHOLE { Some(Fraction(parts)) } else { None }
    }

    /// From per cent, rounded to a billionth; `None` unless in 0..100.
    pub fn from_percent(percent: f64) -> Option<Fraction> {
        let parts = (percent * 1e7).round();
        // A NaN fails the comparison too.
        (parts >= 0.0 && parts < f64::from(Self::WHOLE)).then_some(Fraction(parts as u32))
    }

    /// Parts per billion.
    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }

    /// This fraction of a number, rounded down.
    pub fn of(self, whole: u64) -> u64 {
        // Below `whole`, so it fits.
        (u128::from(whole) * u128::from(self.0) / u128::from(Self::WHOLE)) as u64
    }

    /// The fraction `part / whole`, rounded up, and at most the largest fraction below 1.
    pub(super) fn of_whole(part: u64, whole: u64) -> Fraction {
        let parts = (u128::from(part) * u128::from(Self::WHOLE)).div_ceil(u128::from(whole.max(1)));
        Fraction(parts.min(u128::from(Self::WHOLE - 1)) as u32)
    }

    /// The width that two widths of this size cover together, each relative to its own upper end. A thousandth is
    /// left for loads that are rounded to whole frames.
    pub(super) fn twice(self) -> Fraction {
        let (once, whole) = (u64::from(self.0 - self.0.div_ceil(1000)), u64::from(Self::WHOLE));
        // Twice less the square is below a whole.
        Fraction((2 * once - once * once / whole).max(u64::from(self.0)) as u32)
    }

    /// Whether `part` of `whole` is more than this fraction, computed exactly.
    pub fn is_exceeded_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(Self::WHOLE) > u128::from(whole) * u128::from(self.0)
    }
}

impl From<Fraction> for Wire {
    fn from(share: Fraction) -> Wire {
        Wire { parts_per_billion: share.0 }
    }
}

impl TryFrom<Wire> for Fraction {
    type Error = &'static str;

    fn try_from(wire: Wire) -> Result<Fraction, Self::Error> {
        Fraction::from_parts_per_billion(wire.parts_per_billion).ok_or("a share is below 1000000000 parts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_least_nothing_and_below_one() {
        assert_eq!(Fraction::from_percent(0.5).unwrap().parts_per_billion(), 5_000_000);
        assert_eq!(Fraction::from_percent(50.0), Some(Fraction::HALF));
        assert_eq!(Fraction::from_percent(0.0), Some(Fraction::ZERO));
        for bad in [-0.1, 100.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Fraction::from_percent(bad), None, "{bad}");
        }
        assert_eq!(Fraction::from_parts_per_billion(1_000_000_000), None);
        assert!(serde_json::from_str::<Fraction>(r#"{"parts_per_billion":1000000000}"#).is_err());
    }

    #[test]
    fn two_widths_fill_twice_a_width() {
        let of = |parts| Fraction::from_parts_per_billion(parts).unwrap();
        for width in [0, 1, 999, 1000, 5_000_000, 20_000_000, 500_000_000, 999_999_999].map(of) {
            for upper in [1_u64, 1000, 14_880_952, u64::MAX] {
                let lower = upper - width.twice().of(upper);
                let middle = upper - width.of(upper);
                let room = width.of(upper) >= 1000;
                assert!(width.twice() >= width);
                assert!(
                    !room || !width.is_exceeded_by(middle - lower.min(middle), middle),
                    "{width:?} {upper}"
                );
            }
        }
        assert_eq!(Fraction::of_whole(1, 3).parts_per_billion(), 333_333_334);
        assert_eq!(Fraction::of_whole(u64::MAX, 1), of(999_999_999));
        assert_eq!(Fraction::of_whole(0, 0), Fraction::ZERO);
    }

    #[test]
    fn exceeding_is_exact_at_the_edge_and_for_the_largest_counts() {
        let half_percent = Fraction::from_percent(0.5).unwrap();
        assert!(!half_percent.is_exceeded_by(5, 1000));
        assert!(half_percent.is_exceeded_by(6, 1000));
        // In floating point these two are the same number.
        let whole = u64::MAX - 1;
        assert!(!Fraction::HALF.is_exceeded_by(whole / 2, whole));
        assert!(Fraction::HALF.is_exceeded_by(whole / 2 + 1, whole));
        assert!(Fraction::ZERO.is_exceeded_by(1, u64::MAX));
        assert!(!Fraction::ZERO.is_exceeded_by(0, 1));
        assert_eq!(Fraction::HALF.of(u64::MAX), u64::MAX / 2);
    }
}
