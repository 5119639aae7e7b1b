//! Which frame lengths are sent, and in which order.
use std::fmt;
use std::str::FromStr;

use super::{FrameSize, SizeError};

/// A repeating sequence of frame sizes, spelled out (RFC 6985): names such as "IMIX" alone are not comparable.
/// In text, sizes are given as in the RFCs, with frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeMix {
    parts: Vec<(FrameSize, u16)>,
}

/// Not a mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// The part is neither SIZE nor SIZExCOUNT.
    #[error("'{0}' is not SIZE or SIZExCOUNT; write for example 64x7+570x4+1518x1")]
    Part(String),
    /// A frame of this size cannot have a stamp.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// One period has more frames than allowed.
    #[error("a period of {0} frames is too long; at most {max}", max = SizeMix::MAX_PERIOD)]
    Period(usize),
}

impl SizeMix {
    /// The most frames of a period.
    pub const MAX_PERIOD: usize = 256;

    /// One size for all.
    pub fn fixed(size: FrameSize) -> Self {
        SizeMix { parts: vec![(size, 1)] }
    }

    fn new(parts: Vec<(FrameSize, u16)>) -> Result<Self, MixError> {
        let period = parts.iter().map(|(_, count)| usize::from(*count)).sum();
        if !(1..=Self::MAX_PERIOD).contains(&period) {
            return Err(MixError::Period(period));
        }
        Ok(SizeMix { parts })
    }

    /// The sizes of one period. Different sizes are spread as evenly as their counts allow.
    pub fn period(&self) -> Vec<FrameSize> {
        let total: usize = self.parts.iter().map(|(_, count)| usize::from(*count)).sum();
        let mut credit = vec![0i64; self.parts.len()];
        (0..total)
            .map(|_| {
                for (c, (_, count)) in credit.iter_mut().zip(&self.parts) {
                    *c += i64::from(*count);
                }
                let best = (0..credit.len()).max_by_key(|&i| (credit[i], std::cmp::Reverse(i))).unwrap_or(0);
                credit[best] -= total as i64;
                self.parts[best].0
            })
            .collect()
    }

    /// The size, if all frames have the same.
    pub fn single(&self) -> Option<FrameSize> {
        let (first, _) = *self.parts.first()?;
        self.parts.iter().all(|(size, _)| *size == first).then_some(first)
    }

    /// Mean size in bytes, with frame check sequence (layer 2).
    pub fn mean_bytes_with_fcs(&self) -> f64 {
        self.mean_of(|size| size.bytes_with_fcs().into())
    }

    /// Mean bytes that a frame occupies on a link, with preamble and gap (layer 1).
    pub fn mean_bytes_at_layer_1(&self) -> f64 {
        self.mean_of(FrameSize::at_layer_1)
    }

    fn mean_of(&self, bytes: fn(FrameSize) -> u32) -> f64 {
        let frames: f64 = self.parts.iter().map(|(_, count)| f64::from(*count)).sum();
        let sum = self.parts.iter().map(|&(size, count)| f64::from(bytes(size)) * f64::from(count));
        sum.sum::<f64>() / frames
    }
}

impl FromStr for SizeMix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let part = |part: &str| {
            let (bytes, count) = part.split_once('x').unwrap_or((part, "1"));
            let number = |digits: &str| digits.parse().map_err(|_| MixError::Part(part.to_owned()));
            Ok::<_, MixError>((FrameSize::with_fcs(number(bytes)?)?, number(count)?))
        };
        Self::new(text.split('+').map(part).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for SizeMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(bytes, 1)] = self.parts[..] {
            return write!(f, "{bytes}");
        }
        for (i, (bytes, count)) in self.parts.iter().enumerate() {
            write!(f, "{}{bytes}x{count}", if i > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_spelled_out_and_spread() {
        let mix: SizeMix = "64x7+570x4+1518x1".parse().unwrap();
        assert_eq!(mix.to_string(), "64x7+570x4+1518x1");
        let period = mix.period();
        let of = |bytes| FrameSize::with_fcs(bytes).unwrap();
        let count = |bytes| period.iter().filter(|&&size| size == of(bytes)).count();
        assert_eq!((period.len(), count(64), count(570), count(1518)), (12, 7, 4, 1));
        assert!(period.windows(4).all(|w| w.contains(&of(64))), "{period:?}");
        assert!((mix.mean_bytes_with_fcs() - 353.833).abs() < 0.01);
        assert!((mix.mean_bytes_at_layer_1() - 373.833).abs() < 0.01);
        assert_eq!((mix.single(), SizeMix::fixed(of(64)).single()), (None, Some(of(64))));
        assert_eq!("128".parse::<SizeMix>().unwrap().to_string(), "128");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for wrong in ["", "64x", "x4", "12", "60", "9999", "64x0", "64x300", "64+", "64x1x1"] {
            assert!(wrong.parse::<SizeMix>().is_err(), "{wrong}");
        }
    }
}
