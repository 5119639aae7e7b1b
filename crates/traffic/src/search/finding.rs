use serde::{Deserialize, Serialize};

/// Why a search was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// [`Budget::trials`](super::Budget::trials) were spent.
    Trials,
    /// The next trial would have exceeded [`Budget::traffic`](super::Budget::traffic).
    Traffic,
    /// One trial was invalid [`Budget::attempts`](super::Budget::attempts) times: the generator cannot sustain this
    /// load on this machine.
    Invalid,
}

/// The bounds of a running search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds<P> {
    /// The largest passing value below the upper bound.
    pub lower: Option<P>,
    /// The smallest failing value.
    pub upper: Option<P>,
}

/// The result of a search. `P` is what it searched over, a load or a burst. `L` is the type of the lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding<P, L = P> {
    /// `lower` passed, `upper` failed, and the two are as close as required.
    Bracketed {
        /// The largest passing value.
        lower: L,
        /// The smallest failing value.
        upper: P,
    },
    /// The largest allowed value passed, so the limit of the device was not reached.
    AtMaximum {
        /// The maximum of the range.
        lower: L,
    },
    /// The smallest allowed value failed.
    BelowMinimum {
        /// The minimum of the range.
        upper: P,
    },
    /// The search was cut short. The bounds are valid, but wider than required.
    Undecided {
        /// The largest passing value, if any.
        lower: Option<L>,
        /// The smallest failing value, if any.
        upper: Option<P>,
        /// Why the search was cut short.
        cut: Cut,
    },
}

impl<P, L> Finding<P, L> {
    /// The result, if the search finished and something passed; `None` if it is undecided.
    pub fn decided_lower(&self) -> Option<&L> {
        match self {
            Finding::Bracketed { lower, .. } | Finding::AtMaximum { lower } => Some(lower),
            Finding::BelowMinimum { .. } | Finding::Undecided { .. } => None,
        }
    }
}
