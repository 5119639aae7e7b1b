//! Starts `tautline` as a user would start it; only this module knows its options.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use peers::{Answering, Netns};
use traffic::results::{Run, SizeResult};

use crate::cell::{Cell, System, Topology};
use crate::plan::{ADDRESSES, RunPlan, SEARCH_TRIAL_MS};

/// A search takes some seconds; a device that moves nothing is given up after 20.
const LIMIT: Duration = Duration::from_secs(120);
/// Trials of which one must pass before a load counts as carried: a pause of the machine loses frames at any load.
const VERIFICATION_TRIALS: u32 = 5;

/// Starts `tautline switch`. The switch prints its counters on SIGUSR1.
///
/// # Errors
/// The program cannot be started.
pub fn switch(
    system: System,
    sockets: &[PathBuf],
    program: &Path,
    plan: &RunPlan,
) -> anyhow::Result<Answering> {
    let cpu = plan.switch_cpu.to_string();
    let mut arguments = ["switch", "--format", "json", "--cpus", &cpu].map(String::from).to_vec();
    for (name, socket) in ["a", "b"].iter().zip(sockets) {
        arguments.extend(["--port".into(), format!("{name}=vhost-user:{}", socket.display())]);
    }
    if system == System::TautlineWire {
        arguments.extend(["--wire".into(), "a=b".into()]);
    }
    if let (System::TautlineFlows, Some(flows)) = (system, &plan.flows) {
        arguments.extend(["--flows".into(), flows.display().to_string()]);
    }
    Ok(Answering::start(program, &arguments)?)
}

/// Runs `tautline rfc2544` between these ports: it searches the throughput for this cell's frames, in both directions
/// at once if there are two ports.
///
/// # Errors
/// The program cannot be started, does not end within 120 s, or ends with an error; or its results file cannot be
/// read or has no size.
pub fn rfc2544(
    cell: &Cell,
    ports: &[String],
    inside: Option<&Netns>,
    program: &Path,
    plan: &RunPlan,
) -> anyhow::Result<SizeResult> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rfc2544.json");
    let mut command = match inside {
        Some(namespace) => namespace.command(program),
        None => Command::new(program),
    };
    command.args([
        "rfc2544", "--quick", "--search", "tst009", "--width", "3", "--flows", "8", "--access", "payload",
    ]);
    command.args(["--trial", &format!("{SEARCH_TRIAL_MS}ms")]);
    command.args(["--verification-trials", &VERIFICATION_TRIALS.to_string()]);
    command.args(["--sizes", &cell.frame_bytes.to_string(), "--cpu", &plan.driver_cpu.to_string()]);
    command.args(["--source-mac", ADDRESSES[0], "--destination-mac", ADDRESSES[1]]);
    for (option, port) in ["--from", "--to"].into_iter().zip(ports) {
        command.args([option, port]);
    }
    if cell.topology == Topology::Vm2vm {
        command.arg("--bidirectional");
    }
    linux::child::end_with_parent(&mut command);
    let output = peers::run(command.arg("--output").arg(&file), LIMIT)?;
    ensure!(output.success(), "tautline rfc2544: {}", output.stderr.trim());
    Run::load(&file)?.sizes.pop().context("no size was measured")
}
