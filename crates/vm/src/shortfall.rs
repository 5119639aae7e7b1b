use std::fmt;

use serde::Serialize;

/// Something that the profile asks for and that was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shortfall {
    /// What.
    pub not_done: String,
    /// Why not.
    pub because: String,
    /// What that costs the guest.
    pub costs: String,
    /// What to do about it.
    pub remedy: String,
}

impl Shortfall {
    /// The four parts in their order.
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
