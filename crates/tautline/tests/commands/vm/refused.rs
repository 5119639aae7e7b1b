//! What cannot be had is said before anything is started.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::guest::{Files, kernel};
use super::threads::two_cpus;
use crate::common::{Run, nothing_left, tautline};

#[test]
fn without_cpus_nothing_starts_and_the_costs_are_said() {
    let all = linux::cpus::usable().unwrap();
    let all = linux::cpus::list(&all);
    let files = Files::make();
    let run = Run::new(&["vm", "run", "--profile", "realtime-guest", "--vcpu-cpus", &all, "--accel", "tcg"])
        .args(&["--kernel", &kernel(), "--output", &files.text("status.json")])
        .finish();
    assert_eq!(run.code, Some(1), "{run}");
    for part in
        ["not done: a CPU for QEMU's own threads", "It costs:", "nothing was started", "--best-effort"]
    {
        assert!(run.stderr.contains(part), "{part}: {run}");
    }
    assert!(!files.path("status.json").exists());
    nothing_left(run.pid);

    for (arguments, told) in [
        (&["--vcpu-cpus", "0", "--cpus", "2"][..], "--cpus"),
        (&["--profile", "plain", "--priority", "5"][..], "plain"),
        (&["--profile", "plain", "--pv-sched"][..], "latency"),
        (&["--profile", "realtime-guest", "--pv-sched"][..], "latency"),
        (&["--priority", "5", "--pv-sched"][..], "cannot be used with"),
        (&["--format", "json", "--serial", "-"][..], "standard output"),
        (&["--network", "carrier-pigeon"][..], "vhost-user:PATH"),
        (&["--assign", "zz:0.0"][..], "PCI address"),
    ] {
        let run = Run::new(&["vm", "run", "--kernel", "/none"]).args(arguments).finish();
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains(told), "{told}: {run}");
    }
    let run = Run::new(&["vm", "run", "--kernel", "/none", "--profile", "plain", "--accel", "tcg"]).finish();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("/none"), "QEMU's own words: {run}");
    let run = Run::new(&["vm", "run", "--kernel", "/none", "--assign", "ffff:ff:1f.7"]).finish();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("lspci"), "{run}");
}

/// Root's rights dropped: an ordinary user, whose limits are the usual ones.
#[test]
fn without_rights_it_goes_on_only_where_that_is_asked_for() {
    if !rustix::process::geteuid().is_root() {
        // Then the other tests are what this one is about.
        return;
    }
    let (first, last) = two_cpus();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let (binary, kernel_copy) = (folder.path().join("tautline"), folder.path().join("kernel"));
    fs::copy(tautline(), &binary).unwrap();
    fs::copy(kernel(), &kernel_copy).unwrap();
    for file in [&binary, &kernel_copy] {
        fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
    }
    let run = |further: &[&str]| {
        let mut command = Command::new("prlimit");
        command.args(["--rtprio=0", "--memlock=65536", "setpriv", "--reuid=65534", "--regid=65534"]);
        command.args(["--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]).arg(&binary);
        command.args(["vm", "run", "--profile", "realtime-guest", "--accel", "tcg", "--memory", "128M"]);
        command.args(["--vcpu-cpus", &last, "--housekeeping", &first, "--kernel"]).arg(&kernel_copy);
        // No root file system: the guest panics, and its reset ends QEMU.
        command.args(["--append", "quiet panic=-1"]).args(further);
        Run::of(&mut command).finish()
    };
    let refused = run(&[]);
    assert_eq!(refused.code, Some(1), "{refused}");
    for part in
        ["not done: vCPUs in SCHED_FIFO at 1", "CAP_SYS_NICE", "not done: memory locked", "CAP_IPC_LOCK"]
    {
        assert!(refused.stderr.contains(part), "{part}: {refused}");
    }
    let run = run(&["--best-effort", "--", "-no-reboot"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stdout.contains(&format!(" {last} ")) && run.stdout.contains("not done: memory locked"),
        "{run}"
    );
    nothing_left(run.pid);
}
