//! What this machine can do: every capability is proved by using it, in a process of its own, within a
//! time limit, and nothing is left behind.
//!
//! [`run_all`] starts the binary again for every probe, as `BINARY probe NAME`; that process calls
//! [`serve_probe`]. A probe may therefore enter namespaces, change its scheduling class, hang or crash.

mod leftover;
mod probes;
mod render;
mod run;

use std::io::Write;
use std::process::ExitCode;

use measure::Failure;
use serde::{Deserialize, Serialize};

pub use render::render;
pub use run::{ARGUMENT, run_all, run_one};

/// How far a capability goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was used, and did what it promises.
    Proven,
    /// It was used, and falls short of what it promises.
    Partial,
    /// It could not be used.
    Missing,
}

/// One thing a machine can or cannot do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// The probe's name, such as `huge-pages`.
    pub id: String,
    /// The name for people, such as `Huge pages`.
    pub title: String,
    /// How far it goes.
    pub state: State,
    /// What was done and what the system answered, with figures.
    pub detail: String,
    /// What it opens where it is there, and closes where it is not.
    pub opens: String,
    /// What to do where it is missing or falls short; empty where there is nothing to do.
    pub remedy: String,
}

impl Capability {
    /// A capability that was used and did what it promises.
    pub fn proven(id: &str, title: &str, detail: impl Into<String>, opens: &str) -> Self {
        Finding::proven(detail).of(id, title, opens)
    }

    /// A capability that falls short.
    pub fn partial(
        id: &str,
        title: &str,
        detail: impl Into<String>,
        opens: &str,
        remedy: impl Into<String>,
    ) -> Self {
        Finding::partial(detail, remedy).of(id, title, opens)
    }

    /// A capability that could not be used, from the failure of using it.
    pub fn missing(id: &str, title: &str, failure: Failure, opens: &str) -> Self {
        Finding::from(failure).of(id, title, opens)
    }
}

/// What one probe found out; the rest of a [`Capability`] is fixed in the probe's table entry.
struct Finding {
    state: State,
    detail: String,
    remedy: String,
}

impl Finding {
    fn proven(detail: impl Into<String>) -> Self {
        Finding { state: State::Proven, detail: detail.into(), remedy: String::new() }
    }

    fn partial(detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { state: State::Partial, detail: detail.into(), remedy: remedy.into() }
    }

    fn of(self, id: &str, title: &str, opens: &str) -> Capability {
        let Finding { state, detail, remedy } = self;
        Capability { id: id.into(), title: title.into(), state, detail, opens: opens.into(), remedy }
    }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        let Failure { tried, answer, remedy } = failure;
        Finding { state: State::Missing, detail: format!("{tried}: {answer}"), remedy }
    }
}

/// A probe: what it is called, what hangs on it, and how to find out.
struct Probe {
    id: &'static str,
    title: &'static str,
    opens: &'static str,
    run: fn() -> Result<Finding, Failure>,
}

impl Probe {
    fn capability(&self, finding: Finding) -> Capability {
        finding.of(self.id, self.title, self.opens)
    }
}

/// The names of all probes, in the order they run.
pub const NAMES: [&str; probes::ALL.len()] = {
    let mut names = [""; probes::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = probes::ALL[index].id;
        index += 1;
    }
    names
};

/// Runs one probe in this process, which it may leave changed: in other namespaces, for one. Probes that
/// enter a user namespace need a process with one thread.
pub fn probe(name: &str) -> Option<Capability> {
    let probe = find(name)?;
    Some(probe.capability((probe.run)().unwrap_or_else(Finding::from)))
}

/// The whole life of a process that was started for one probe: runs it and prints the capability as one
/// line of JSON.
pub fn serve_probe(name: &str) -> ExitCode {
    run::tie_to_parent();
    if name == leftover::SWEEP {
        leftover::sweep();
        return ExitCode::SUCCESS;
    }
    let Some(capability) = probe(name) else {
        eprintln!("no probe is called {name}; there are {}", NAMES.join(", "));
        return ExitCode::from(2);
    };
    let line = serde_json::to_string(&capability).expect("plain data");
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE, // nobody listens any more
    }
}

fn find(name: &str) -> Option<&'static Probe> {
    probes::ALL.iter().find(|probe| probe.id == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        assert_eq!(NAMES.iter().collect::<BTreeSet<_>>().len(), NAMES.len());
        assert!(probe("no-such-probe").is_none());
    }

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
