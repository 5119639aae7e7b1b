use std::fmt;

use serde::Serialize;

/// A wish of the profile that was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shortfall {
    /// What.
    pub not_done: String,
    /// Why not.
    pub because: String,
    /// The disadvantage for the guest.
    pub costs: String,
    /// What the user can do about it.
    pub remedy: String,
}

impl Shortfall {
    /// Makes a shortfall from its four parts, in their order.
    pub fn new(
        not_done: impl Into<String>,
        because: impl ToString,
        costs: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Shortfall {
            not_done: not_done.into(),
            because: because.to_string(),
            costs: costs.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortfall { not_done, because, costs, remedy } = self;
        write!(f, "not done: {not_done}: {because}. It costs: {costs}. To do: {remedy}")
    }
}
