//! Requirements of tests that this machine does not meet. The test reports them, and fails in continuous integration.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// The variable with the names of what may be missing, separated by commas.
const ALLOWED: &str = "TAUTLINE_SKIP";
/// The variable that names the file in which `scripts/test.sh` collects what did not run.
const COLLECTED_IN: &str = "TAUTLINE_NOT_RUN";

/// Whether a test that needs this requirement continues: true if the requirement is met. If it is missing, the
/// function prints the remedy and returns false, and the test must end.
///
/// # Panics
/// Panics in continuous integration (`CI` is set), unless `TAUTLINE_SKIP` contains the name.
#[track_caller]
pub fn required(name: &str, is_there: bool, remedy: &str) -> bool {
    if !is_there {
        let tolerated = tolerates(name, &env::var(ALLOWED).unwrap_or_default(), env::var_os("CI").is_some());
        assert!(
            tolerated,
            "{name} is missing: {remedy}; or set {ALLOWED}={name} to go without what needs it"
        );
        record(name, remedy);
    }
    is_there
}

/// Reports that a test cannot run without `name`, and the reason; the test then returns.
///
/// # Panics
/// Panics like [`required`].
#[track_caller]
pub fn absent(name: &str, why: &str) {
    required(name, false, why);
}

fn tolerates(name: &str, allowed: &str, in_ci: bool) -> bool {
    !in_ci || allowed.split(',').any(|one| one.trim() == name)
}

/// Prints that something did not run, and collects it for the end of the run.
fn record(name: &str, why: &str) {
    let line = format!("not run here for want of {name}: {why}");
    // `eprintln!` is not used, because the harness withholds its output if the test passes.
    let _ = writeln!(std::io::stderr(), "{line}");
    let Some(file) = env::var_os(COLLECTED_IN) else { return };
    let written = OpenOptions::new().create(true).append(true).open(file);
    written.and_then(|mut file| writeln!(file, "{line}")).expect("what did not run is collected");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fails_in_ci_unless_it_is_named() {
        assert!(tolerates("a-peer", "", false));
        assert!(!tolerates("a-peer", "another,a-peer-2", true));
        assert!(tolerates("a-peer", "another, a-peer", true));
    }
}
