//! Conditions on fields of a frame, and whether a frame meets them.

use super::field::{Field, Start};

/// A condition on a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The field is at least the second and at most the third.
    Within(Field, u32, u32),
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
}

impl Filter {
    pub fn and(self, other: Filter) -> Filter {
        match self {
            Filter::All(mut all) => {
                all.push(other);
                Filter::All(all)
            }
            first => Filter::All(vec![first, other]),
        }
    }

    pub fn or(self, other: Filter) -> Filter {
        match self {
            Filter::Any(mut any) => {
                any.push(other);
                Filter::Any(any)
            }
            first => Filter::Any(vec![first, other]),
        }
    }

    pub fn negated(self) -> Filter {
        Filter::Not(Box::new(self))
    }

    /// Whether a frame of `frame_bytes`, which begins with `bytes`, is kept.
    pub fn matches(&self, bytes: &[u8], frame_bytes: usize) -> bool {
        self.holds(Start { bytes, frame_bytes }) == Some(true)
    }

    /// `None` if the frame ends before a field that decides: tcpdump keeps no such frame, even in a negation.
    fn holds(&self, start: Start<'_>) -> Option<bool> {
        match self {
            Filter::Within(field, least, most) => Some((*least..=*most).contains(&field.read(start)?)),
            Filter::All(all) => {
                for one in all {
                    if !one.holds(start)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Filter::Any(any) => {
                for one in any {
                    if one.holds(start)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Filter::Not(one) => Some(!one.holds(start)?),
        }
    }
}
