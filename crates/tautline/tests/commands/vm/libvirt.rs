//! `vm attach` to a domain that libvirt started: a daemon of its own, as an ordinary user, in a folder of this test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use linux::Child;

use super::threads::{Thread, of, two_cpus};
use crate::common::{Run, wait_until};

const NOBODY: u32 = 65534;

/// As an ordinary user, for whom the daemon keeps everything in these folders.
fn as_user(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command
            .arg(format!("--reuid={NOBODY}"))
            .arg(format!("--regid={NOBODY}"))
            .arg("--clear-groups")
            .arg(program);
    }
    command.env("HOME", folder).env("XDG_RUNTIME_DIR", folder).stdin(Stdio::null()).current_dir(folder);
    command
}

fn virsh(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = as_user(folder, "virsh");
    command
        .args(["-c", "qemu:///session"])
        .args(arguments)
        .output()
        .expect("scripts/setup.sh test installs virsh")
}

fn domain(name: &str) -> String {
    let (architecture, machine) = match std::env::consts::ARCH {
        "aarch64" => ("aarch64", "virt"),
        _ => ("x86_64", "q35"),
    };
    let qemu = environment::vm::find_qemu().unwrap();
    format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>2</vcpu><iothreads>1</iothreads>
        <os><type arch='{architecture}' machine='{machine}'>hvm</type></os><seclabel type='none'/>
        <devices><emulator>{}</emulator></devices></domain>",
        qemu.display()
    )
}

#[test]
fn a_domain_is_found_by_its_name_pinned_and_put_back() {
    let (first, last) = two_cpus();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let folder = folder.path();
    let log = fs::File::create(folder.join("log")).unwrap();
    let mut daemon = as_user(folder, "libvirtd");
    daemon.stdout(log.try_clone().unwrap()).stderr(log);
    let _daemon = Child::spawn(&mut daemon).expect("scripts/setup.sh test installs libvirtd");
    let said = || fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert!(wait_until(|| virsh(folder, &["list"]).status.success()), "{}", said());

    fs::write(folder.join("guest.xml"), domain("pinned")).unwrap();
    let created = virsh(folder, &["create", "guest.xml", "--paused"]);
    assert!(created.status.success(), "{}{}", String::from_utf8_lossy(&created.stderr), said());
    let pid = fs::read_to_string(folder.join("libvirt/qemu/run/pinned.pid")).unwrap();
    let pid: u32 = pid.trim().parse().unwrap();
    let before = of(pid);
    let journal = folder.join("journal");
    let run = |arguments: &[&str]| {
        let run = Run::new(arguments).arg("--journal").arg(&journal).env("XDG_RUNTIME_DIR", folder).finish();
        assert_eq!(run.code, Some(0), "{run}");
        run
    };
    run(&[
        "vm",
        "attach",
        "pinned",
        "--vcpu-cpus",
        &last,
        "--housekeeping",
        &first,
        "--profile",
        "throughput",
        "--best-effort",
    ]);
    let placed = |thread: &Thread| match thread.name.as_str() {
        "CPU 0/TCG" => thread.cpus == last,
        "CPU 1/TCG" => true, // no CPU is left for it
        _ => thread.cpus == first,
    };
    let now = of(pid);
    assert!(now.iter().all(placed) && now.iter().any(|thread| thread.name == "CPU 0/TCG"), "{now:#?}");
    run(&["vm", "detach", "pinned"]);
    assert_eq!(of(pid), before);

    assert!(virsh(folder, &["destroy", "pinned"]).status.success());
    assert!(wait_until(|| of(pid).is_empty()));
}
