//! What a test needs and this machine does not have. The test says so, and fails in continuous integration.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// The variable with the names of what may be missing, separated by commas.
const ALLOWED: &str = "TAUTLINE_SKIP";
/// The variable that names the file in which `scripts/test.sh` collects what did not run.
const COLLECTED_IN: &str = "TAUTLINE_NOT_RUN";

/// Says that a test cannot run for want of `name`, and why; the test then returns.
///
/// # Panics
/// In continuous integration (`CI` is set), unless `TAUTLINE_SKIP` holds the name.
#[track_caller]
pub fn absent(name: &str, why: &str) {
    let allowed = env::var(ALLOWED).unwrap_or_default().split(',').any(|one| one.trim() == name);
    let tolerated = allowed || env::var_os("CI").is_none();
    assert!(tolerated, "{name}: {why}; install it, or set {ALLOWED}={name} to go without what needs it");
    record(name, why);
}

/// Prints that something did not run, and collects it for the end of the run.
pub(crate) fn record(name: &str, why: &str) {
    let line = format!("not run here for want of {name}: {why}");
    // Not by eprintln!, whose output the harness withholds where the test passes.
    let _ = writeln!(std::io::stderr(), "{line}");
    let Some(file) = env::var_os(COLLECTED_IN) else { return };
    let written = OpenOptions::new().create(true).append(true).open(file);
    written.and_then(|mut file| writeln!(file, "{line}")).expect("what did not run is collected");
}
