//! A container: an OCI runtime (crun or runc), or LXC.

mod lxc;
mod oci;
mod oci_config;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use measure::quota::{CpuQuota, short_period, tick};
use measure::{EnvironmentKind, Failure};

use crate::janitor::Leftover;
use crate::{Environment, Janitor, Running, Start};

/// Which program makes the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `crun`
    Crun,
    /// `runc`
    Runc,
    /// `lxc-execute`
    Lxc,
}

impl Runtime {
    /// The command's name.
    pub fn command(self) -> &'static str {
        match self {
            Runtime::Crun => "crun",
            Runtime::Runc => "runc",
            Runtime::Lxc => "lxc-execute",
        }
    }
}

/// What a user may set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The runtime; otherwise the first of crun, runc and LXC that really starts one.
    pub runtime: Option<Runtime>,
    /// CPU quota in CPUs, as 0.5; otherwise none.
    pub cpu_quota: Option<f64>,
}

/// A container with namespaces and a cgroup of its own.
#[derive(Clone, Debug)]
pub struct Container {
    settings: Settings,
    runtime: Runtime,
    path: PathBuf,
    version: String,
}

/// Where the agent lies inside.
const AGENT: &str = "/tautline";

/// The kernel takes no smaller quota and no longer period (`min_cfs_quota_period`, `max_cfs_quota_period`).
const LEAST_QUOTA_US: f64 = 1000.0;
const LONGEST_PERIOD_US: u64 = 1_000_000;

/// The quota that so many CPUs are, in a period as short as is of use.
fn cpu_quota(cpus: f64) -> CpuQuota {
    let least_us = (LEAST_QUOTA_US / cpus).ceil() as u64;
    let period_us = (short_period(tick()).as_micros() as u64).max(least_us).min(LONGEST_PERIOD_US);
    CpuQuota { quota_us: (cpus * period_us as f64).round() as u64, period_us }
}

const INSTALL: &str = "install crun or runc (`make setup` does)";

impl Container {
    /// Chooses a runtime and proves it by starting a container with the agent in it.
    pub fn prove(settings: Settings, start: &Start<'_>) -> Result<Self, Failure> {
        let candidates = match settings.runtime {
            Some(runtime) => vec![runtime],
            None => vec![Runtime::Crun, Runtime::Runc, Runtime::Lxc],
        };
        let mut answers = Vec::new();
        let mut remedy = INSTALL;
        for runtime in candidates {
            let Some(path) = find_command(runtime.command()) else {
                answers.push(format!("{}: not installed", runtime.command()));
                continue;
            };
            let container = Container { settings: settings.clone(), runtime, version: version(&path), path };
            match container.start(start).and_then(|mut running| {
                running
                    .channel()
                    .receive(start.limit)
                    .map_err(|e| running.explain("a first start", &e, INSTALL))
            }) {
                Ok(_) => return Ok(container),
                Err(failure) => {
                    answers.push(format!("{}: {}", runtime.command(), failure.answer));
                    remedy =
                        "see what the runtime said; another is named with container:runtime=crun|runc|lxc";
                }
            }
        }
        Err(Failure::new("starting a container with the agent in it", answers.join("; "), remedy))
    }
}

impl Environment for Container {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Container
    }

    fn accelerator(&self) -> &str {
        "native"
    }

    fn facts(&self) -> Vec<(String, String)> {
        vec![("runtime".into(), self.version.clone())]
    }

    fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        match self.runtime {
            Runtime::Crun | Runtime::Runc => oci::start(&self.path, &self.settings, start),
            Runtime::Lxc => lxc::start(&self.path, &self.settings, start),
        }
    }
}

/// The full path of a command in PATH or where distributions keep administrators' commands.
pub(crate) fn find_command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

fn version(path: &std::path::Path) -> String {
    let output = Command::new(path).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().trim();
    match path.file_name().map(|name| name.to_string_lossy()) {
        Some(name) if !line.contains(&*name) => format!("{name} {line}"),
        _ => line.to_owned(),
    }
}

/// Removes in reverse order what was made, by whatever way the start ends.
struct Undo {
    janitor: Arc<Janitor>,
    leftovers: Vec<Leftover>,
}

impl Undo {
    fn new(janitor: &Arc<Janitor>) -> Self {
        Undo { janitor: janitor.clone(), leftovers: Vec::new() }
    }

    fn made(&mut self, leftover: Leftover) {
        self.janitor.made(&leftover);
        self.leftovers.push(leftover);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for leftover in self.leftovers.iter().rev() {
            self.janitor.remove(leftover);
        }
    }
}
