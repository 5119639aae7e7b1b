//! What a user gets to see of results: the table, the page, where the files are.

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use linux::interrupt;
use measure::Results;
use measure::compare::analyse;
use report::gate::{Gate, GateOutcome};

use crate::exit::Usage;

/// Lines end here where the output is no terminal.
const DEFAULT_WIDTH: usize = 120;

/// From now on SIGINT, SIGTERM and SIGHUP are found by [`interrupt::is_set`].
pub fn catch_interrupts() -> anyhow::Result<()> {
    interrupt::catch().context("catching signals")
}

/// Finds out before a long run that a file could not be written after it.
pub fn require_writable(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let usable = folder.is_dir() && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    if usable && !path.is_dir() {
        return Ok(());
    }
    Err(Usage(format!(
        "{}: cannot be written; name a file in a folder that exists and may be written",
        path.display()
    ))
    .into())
}

/// Prints the table, writes the page, evaluates the gate.
pub fn show(results: &Results, html: Option<&Path>, gate: Option<&Gate>) -> anyhow::Result<Vec<GateOutcome>> {
    let analysis = analyse(results);
    let outcomes = gate.map(|gate| gate.evaluate(results, &analysis)).unwrap_or_default();
    print(&report::terminal::render(results, &analysis, width(), std::io::stdout().is_terminal()))?;
    if let Some(path) = html {
        write_page(path, std::slice::from_ref(results), &outcomes)?;
    }
    print_gate(&outcomes)?;
    Ok(outcomes)
}

/// Writes the page of one run, or of two.
pub fn write_page(path: &Path, runs: &[Results], outcomes: &[GateOutcome]) -> anyhow::Result<()> {
    std::fs::write(path, report::html::render_with_gate(runs, outcomes))
        .with_context(|| format!("writing the page to {}", path.display()))
}

/// A line for each limit.
pub fn print_gate(outcomes: &[GateOutcome]) -> anyhow::Result<()> {
    outcomes.iter().try_for_each(|outcome| print(&format!("gate: {outcome}\n")))
}

/// Says where the files are.
pub fn say_where(json: &Path, html: Option<&Path>) {
    eprintln!("raw samples: {} (redraw with `tautline report`)", json.display());
    if let Some(path) = html {
        eprintln!("page with plots: {}", path.display());
    }
}

/// Prints to the standard output. A reader that went away (`| head`) is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("writing to the standard output"),
    }
}

/// The width of the terminal.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
}

/// The CPUs that this process may use.
pub fn usable_cpus() -> anyhow::Result<Vec<usize>> {
    linux::cpus::usable().context("asking for the CPUs this process may use")
}
