//! A container by `lxc-execute`: namespaces and a cgroup around the agent, on the host's file system.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::Failure;

use super::Settings;
use crate::janitor::Leftover;
use crate::{Running, Start, host};

pub(super) fn start(runtime: &Path, settings: &Settings, start: &Start<'_>) -> Result<Running, Failure> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("tautline-lxc-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(&id);
    let leftover = Leftover::Folder(folder.clone());
    start.janitor.made(&leftover);
    let janitor = start.janitor.clone();
    let clean_up = Box::new(move || janitor.remove(&leftover));

    let mut config = String::from("lxc.net.0.type = empty\nlxc.uts.name = tautline\nlxc.log.level = ERROR\n");
    if let Some(quota) = settings.cpu_quota {
        const PERIOD_US: f64 = 5_000.0;
        config += &format!(
            "lxc.cgroup.cpu.cfs_period_us = {PERIOD_US}\nlxc.cgroup.cpu.cfs_quota_us = {}\n",
            (quota * PERIOD_US).round()
        );
    }
    let file = folder.join("config");
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, config));
    if let Err(error) = written {
        clean_up();
        return Err(Failure::new(
            format!("writing {}", file.display()),
            error,
            "free some space, or set TMPDIR to a folder with some",
        ));
    }
    let mut command = Command::new(runtime);
    command.args(["--name", &id, "--lxcpath"]).arg(&folder).arg("--rcfile").arg(&file).arg("--");
    command.arg(&start.agent.binary).args(&start.agent.arguments);
    match host::spawn_with_pipes(command, "the LXC container", "see what lxc-execute said") {
        Ok(running) => Ok(running.with_clean_up(clean_up)),
        Err(failure) => {
            clean_up();
            Err(failure)
        }
    }
}
