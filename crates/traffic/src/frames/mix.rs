//! Which frame lengths are sent, and in which order.
use std::fmt;
use std::str::FromStr;

use super::MIN_FRAME_BYTES;

/// A repeating sequence of frame lengths, spelled out (RFC 6985): names such as "IMIX" alone are not
/// comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeMix {
    parts: Vec<(u16, u16)>,
}

/// Not a mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// Not LENGTH or LENGTHxCOUNT.
    #[error("'{0}' is not LENGTH or LENGTHxCOUNT; write for example 64x7+570x4+1518x1")]
    Part(String),
    /// A length that no stamped frame has.
    #[error("frames of {0} bytes are not sent; lengths are {MIN_FRAME_BYTES} to {max}", max = SizeMix::MAX_BYTES)]
    Length(u16),
    /// More frames than one period may have.
    #[error("a period of {0} frames is too long; at most {max}", max = SizeMix::MAX_PERIOD)]
    Period(usize),
}

impl SizeMix {
    /// Longest frame in bytes.
    pub const MAX_BYTES: u16 = 9216;
    /// Most frames of a period.
    pub const MAX_PERIOD: usize = 256;

    /// One length for all.
    pub fn fixed(bytes: u16) -> Result<Self, MixError> {
        Self::new(vec![(bytes, 1)])
    }

    fn new(parts: Vec<(u16, u16)>) -> Result<Self, MixError> {
        for (bytes, _) in &parts {
            if !(MIN_FRAME_BYTES as u16..=Self::MAX_BYTES).contains(bytes) {
                return Err(MixError::Length(*bytes));
            }
        }
        let period = parts.iter().map(|(_, count)| usize::from(*count)).sum();
        if !(1..=Self::MAX_PERIOD).contains(&period) {
            return Err(MixError::Period(period));
        }
        Ok(SizeMix { parts })
    }

    /// The lengths of one period, different ones spread as evenly as their counts allow.
    pub fn period(&self) -> Vec<u16> {
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

    /// Mean length in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let period = self.period();
        period.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / period.len() as f64
    }
}

impl FromStr for SizeMix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let part = |part: &str| {
            let (bytes, count) = part.split_once('x').unwrap_or((part, "1"));
            let number = |digits: &str| digits.parse().map_err(|_| MixError::Part(part.to_owned()));
            Ok((number(bytes)?, number(count)?))
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
        let count = |bytes| period.iter().filter(|&&b| b == bytes).count();
        assert_eq!((period.len(), count(64), count(570), count(1518)), (12, 7, 4, 1));
        assert!(period.windows(4).all(|w| w.contains(&64)), "{period:?}");
        assert!((mix.mean_bytes() - 353.833).abs() < 0.01);
        assert_eq!("128".parse::<SizeMix>().unwrap().to_string(), "128");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for wrong in ["", "64x", "x4", "12", "9999", "64x0", "64x300", "64+", "64x1x1"] {
            assert!(wrong.parse::<SizeMix>().is_err(), "{wrong}");
        }
    }
}
