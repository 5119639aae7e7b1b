//! The result for one capability.

use measure::Failure;
use serde::{Deserialize, Serialize};

/// The degree to which a capability works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The capability was used, and did what it promises.
    Proven,
    /// The capability was used, and did less than it promises.
    Partial,
    /// The capability could not be used.
    Missing,
}

/// One capability of a machine, present or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// The probe's name, such as `huge-pages`.
    pub id: String,
    /// The displayed name, such as `Huge pages`.
    pub title: String,
    /// The degree to which the capability works.
    pub state: State,
    /// What was done and what the system answered, with figures.
    pub detail: String,
    /// What the capability enables if it is present, and what is unavailable if it is missing.
    pub enables: String,
    /// What the user can do if the capability is missing or partial; empty if nothing needs to be done.
    pub remedy: String,
}

impl Capability {
    /// A capability that was used and did what it promises.
    pub fn proven(id: &str, title: &str, detail: impl Into<String>, enables: &str) -> Self {
        Finding::proven(detail).of(id, title, enables)
    }

    /// A capability that does less than it promises.
    pub fn partial(
        id: &str,
        title: &str,
        detail: impl Into<String>,
        enables: &str,
        remedy: impl Into<String>,
    ) -> Self {
        Finding::partial(detail, remedy).of(id, title, enables)
    }

    /// A capability that could not be used; `failure` is the failure of using it.
    pub fn missing(id: &str, title: &str, failure: Failure, enables: &str) -> Self {
        Finding::from(failure).of(id, title, enables)
    }
}

/// What one probe found out; the rest of a [`Capability`] is fixed in the probe's table entry.
pub(super) struct Finding {
    state: State,
    detail: String,
    remedy: String,
}

impl Finding {
    pub fn proven(detail: impl Into<String>) -> Self {
        Finding { state: State::Proven, detail: detail.into(), remedy: String::new() }
    }

    pub fn partial(detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { state: State::Partial, detail: detail.into(), remedy: remedy.into() }
    }

    pub fn of(self, id: &str, title: &str, enables: &str) -> Capability {
        let Finding { state, detail, remedy } = self;
        Capability { id: id.into(), title: title.into(), state, detail, enables: enables.into(), remedy }
    }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        let Failure { tried, answer, remedy } = failure;
        Finding { state: State::Missing, detail: format!("{tried}: {answer}"), remedy }
    }
}

/// A probe: its name, what depends on the capability, and the function that finds out.
pub(super) struct Probe {
    pub id: &'static str,
    pub title: &'static str,
    pub enables: &'static str,
    pub run: fn() -> Result<Finding, Failure>,
}

impl Probe {
    pub fn capability(&self, finding: Finding) -> Capability {
        finding.of(self.id, self.title, self.enables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_all_of_it() {
        let failure = Failure::new("opening /dev/x", "EPERM", "ask root");
        let missing = Capability::missing("x", "X", failure, "nothing");
        let json = serde_json::to_string(&missing).unwrap();
        assert!(json.contains(r#""state":"missing""#), "{json}");
        assert!(!json.contains('\n'), "one line");
        assert_eq!(serde_json::from_str::<Capability>(&json).unwrap(), missing);
        assert_eq!((missing.detail.as_str(), missing.remedy.as_str()), ("opening /dev/x: EPERM", "ask root"));
    }
}
