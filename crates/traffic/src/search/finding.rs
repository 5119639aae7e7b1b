use serde::{Deserialize, Serialize};

/// What cut a search short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// [`Budget::trials`](super::Budget::trials) were spent.
    Trials,
    /// The next trial would have exceeded [`Budget::traffic`](super::Budget::traffic).
    Traffic,
    /// One trial was invalid [`Budget::attempts`](super::Budget::attempts) times: the generator cannot keep this load on this machine.
    Invalid,
}

/// The bounds known while a search runs: what was carried, what was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds<P> {
    /// The largest that was carried below the upper bound.
    pub lower: Option<P>,
    /// The smallest that was not.
    pub upper: Option<P>,
}

/// What a search found. `P` is what it searched over, a load or a burst; `L` is how it reports the lower
/// bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding<P, L = P> {
    /// Carried at `lower`, not at `upper`, and the two are as close as was asked for.
    Bracketed {
        /// The largest that was carried.
        lower: L,
        /// The smallest that was not.
        upper: P,
    },
    /// Carried at the largest that could be asked for: the limit of the device was not seen.
    AtMaximum {
        /// The maximum of the range.
        lower: L,
    },
    /// Not even the smallest that could be asked for was carried.
    BelowMinimum {
        /// The minimum of the range.
        upper: P,
    },
    /// The search was cut short. The bounds hold, and are wider than was asked for.
    Undecided {
        /// The largest that was carried, if any was.
        lower: Option<L>,
        /// The smallest that was not, if any was.
        upper: Option<P>,
        /// What cut it short.
        cut: Cut,
    },
}

impl<P, L> Finding<P, L> {
    /// The result of the search, where it ended and something was carried; None where it is undecided.
    pub fn decided_lower(&self) -> Option<&L> {
        match self {
            Finding::Bracketed { lower, .. } | Finding::AtMaximum { lower } => Some(lower),
            Finding::BelowMinimum { .. } | Finding::Undecided { .. } => None,
        }
    }
}
