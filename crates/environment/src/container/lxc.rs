//! Starts a container with `lxc-execute`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::Failure;
use measure::quota::CpuQuota;

use super::settings::{AGENT, Settings, cpu_quota};
use crate::janitor::Leftover;
use crate::undo::Undo;
use crate::{Running, Start, host};

pub(super) fn start(runtime: &Path, settings: &Settings, start: &Start<'_>) -> Result<Running, Failure> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("tautline-lxc-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut undo = Undo::new(start.janitor);
    let folder = std::env::temp_dir().join(&id);
    undo.made(Leftover::Folder(folder.clone()));
    // The process that watches over the container ends in the pivot's cgroup, so that the others can go.
    let pivot = format!("{id}-pivot");
    undo.made(Leftover::Cgroup(pivot.clone()));
    undo.made(Leftover::Cgroup(id.clone()));

    let rootfs = folder.join("rootfs");
    let mut config = format!(
        "lxc.uts.name = tautline\nlxc.log.level = ERROR\nlxc.net.0.type = empty\n\
         lxc.console.path = none\nlxc.tty.max = 0\nlxc.autodev = 1\n\
         lxc.rootfs.path = dir:{}\nlxc.mount.auto = proc:rw sys:ro\n\
         lxc.cgroup.dir.container = {id}\nlxc.cgroup.dir.monitor = {pivot}\n\
         lxc.cgroup.dir.monitor.pivot = {pivot}\n",
        rootfs.display(),
    );
    for (inside, file) in [(AGENT, &start.agent.binary)]
        .into_iter()
        .chain(start.agent.files.iter().map(|file| (file.to_str().unwrap_or_default(), file)))
    {
        let inside = inside.trim_start_matches('/');
        config += &format!("lxc.mount.entry = {} {inside} none bind,ro,create=file 0 0\n", file.display());
    }
    if let Some(CpuQuota { quota_us, period_us }) = settings.cpu_quota.map(cpu_quota) {
        config += &format!(
            "lxc.cgroup.cpu.cfs_period_us = {period_us}\nlxc.cgroup.cpu.cfs_quota_us = {quota_us}\n\
             lxc.cgroup2.cpu.max = {quota_us} {period_us}\n"
        );
    }
    let file = folder.join("config");
    let written = ["proc", "sys", "dev", "tmp"]
        .iter()
        .try_for_each(|inside| fs::create_dir_all(rootfs.join(inside)))
        .and_then(|()| fs::write(&file, config));
    written.map_err(|error| {
        let remedy = "free some space, or set TMPDIR to a folder with some";
        Failure::new(format!("writing {}", file.display()), error, remedy)
    })?;
    let mut command = Command::new(runtime);
    command.args(["--name", &id, "--lxcpath"]).arg(&folder).arg("--rcfile").arg(&file).arg("--");
    command.arg(AGENT).args(&start.agent.arguments);
    let running = host::spawn_with_pipes(command, "the LXC container", "see what lxc-execute said")?;
    Ok(running.in_cgroup(id).with_clean_up(Box::new(move || drop(undo))))
}
