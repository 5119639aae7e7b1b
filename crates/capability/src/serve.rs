//! Runs one probe in the process that was started for it.

use std::io::Write;
use std::process::ExitCode;

use super::finding::{Capability, Finding};
use super::probes::{NAMES, find};
use super::{leftover, parent};

/// Runs one probe in this process. The probe may leave the process changed, for example in other namespaces. Probes
/// that enter a user namespace need a process with one thread.
pub fn probe(name: &str) -> Option<Capability> {
    let probe = find(name)?;
    Some(probe.capability((probe.run)().unwrap_or_else(Finding::from)))
}

/// The main function of a process that was started for one probe: runs it and prints the capability as one line of
/// JSON.
pub fn serve_probe(name: &str) -> ExitCode {
    parent::end_with_parent();
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        assert_eq!(NAMES.iter().collect::<BTreeSet<_>>().len(), NAMES.len());
        assert!(probe("no-such-probe").is_none());
    }
}
