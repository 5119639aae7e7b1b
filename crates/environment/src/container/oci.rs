//! Starts a container with an OCI runtime (OCI runtime specification 1.0) in the foreground: when the agent ends, the
//! runtime removes the container and ends as well.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::Failure;

use super::oci_config;
use super::settings::Settings;
use crate::janitor::Leftover;
use crate::undo::Undo;
use crate::{Running, Start, host};

pub(super) fn start(runtime: &Path, settings: &Settings, start: &Start<'_>) -> Result<Running, Failure> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("tautline-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let rootless = !rustix::process::geteuid().is_root();
    if rootless && settings.cpu_quota.is_some() {
        return Err(Failure::new(
            "a CPU quota for a container without root",
            "cgroups of an ordinary user have no CPU controller here",
            "run as root, or leave the quota out",
        ));
    }
    let mut undo = Undo::new(start.janitor);
    let bundle = bundle(&id, &mut undo).map_err(|error| {
        Failure::new(
            "making a folder for the container",
            error,
            "free some space, or set TMPDIR to a folder with some",
        )
    })?;
    let state = bundle.join("state");
    undo.made(Leftover::Cgroup(id.clone()));
    undo.made(Leftover::Container { runtime: runtime.into(), state: state.clone(), id: id.clone() });

    let config = oci_config::config(&id, settings, start, rootless);
    fs::write(bundle.join("config.json"), config.to_string()).map_err(|error| {
        Failure::new(
            "writing the container's config.json",
            error,
            "free some space, or set TMPDIR to a folder with some",
        )
    })?;
    let mut command = Command::new(runtime);
    command.arg("--root").arg(&state);
    if rootless && runtime.ends_with("crun") {
        command.arg("--cgroup-manager=disabled");
    }
    command.arg("run").arg("--bundle").arg(&bundle).arg(&id);
    let running = host::spawn_with_pipes(command, "the container", "see what the runtime said")?;
    Ok(running.in_cgroup(id).with_clean_up(Box::new(move || drop(undo))))
}

/// A folder with an empty root file system; everything in it is mounted at the start.
fn bundle(id: &str, undo: &mut Undo) -> io::Result<std::path::PathBuf> {
    let bundle = std::env::temp_dir().join(id);
    undo.made(Leftover::Folder(bundle.clone()));
    for folder in ["rootfs", "state"] {
        fs::create_dir_all(bundle.join(folder))?;
    }
    Ok(bundle)
}
