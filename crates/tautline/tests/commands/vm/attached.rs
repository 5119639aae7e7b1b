//! `vm attach` and `detach`, on a QEMU that this test starts, stopped: its threads are there without a guest.

use std::process::{Command, Stdio};

use linux::Child;
use peers::schema::fits;

use super::guest::{Files, Monitor};
use super::threads::{Thread, of, two_cpus};
use crate::common::{Run, wait_until};

fn qemu(files: &Files, names: bool) -> Child {
    let mut command = Command::new(environment::vm::QEMU);
    let machine = if cfg!(target_arch = "aarch64") { "virt" } else { "q35" };
    let name = if names { "guest=x,debug-threads=on" } else { "guest=x,debug-threads=off" };
    command.args([
        "-S",
        "-nodefaults",
        "-display",
        "none",
        "-accel",
        "tcg,thread=multi",
        "-machine",
        machine,
    ]);
    command.args(["-m", "64M", "-smp", "2", "-name", name, "-object", "iothread,id=disk"]);
    command.args(["-qmp", &format!("unix:{},server=on,wait=off", files.text("qmp"))]);
    let child = Child::spawn(command.stdin(Stdio::null()).stdout(Stdio::null())).unwrap();
    // It answers: all its threads are there.
    drop(Monitor::connect(&files.path("qmp")));
    child
}

#[test]
fn threads_of_a_running_qemu_are_pinned_and_put_back() {
    let (first, last) = two_cpus();
    for names in [true, false] {
        let files = Files::make();
        let qemu = qemu(&files, names);
        let pid = qemu.id().to_string();
        let before = of(qemu.id());
        let journal = files.text("journal");
        let place = ["--housekeeping", &first, "--profile", "throughput", "--priority", "4", "--best-effort"];
        let socket = files.text("qmp");
        let all = ["--pid", &pid, "--journal", &journal, "--qmp", &socket];
        let guest = if names { &all[..4] } else { &all };

        let audit = Run::new(&["vm", "attach", "--dry-run"]).args(guest).args(&place).finish();
        assert_eq!(audit.code, Some(0), "{audit}");
        assert!(audit.stdout.contains("wanted fifo 4") && audit.stdout.contains("vCPU 1"), "{audit}");
        assert_eq!(of(qemu.id()), before, "a dry run changes nothing");

        // One CPU is left for two vCPUs.
        let attach =
            Run::new(&["vm", "attach", "--vcpu-cpus", &last, "--format", "json"]).args(guest).args(&place);
        let attached = attach.finish();
        assert_eq!(attached.code, Some(0), "{attached}");
        let shown: serde_json::Value = serde_json::from_str(&attached.stdout).unwrap();
        fits(&shown);
        assert!(shown["not_done"][0]["not_done"].as_str().unwrap().contains("1 of 2 vCPUs"), "{shown:#}");
        let roles: Vec<&str> = shown["threads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|thread| thread["role"].as_str().unwrap())
            .collect();
        assert!(
            roles.starts_with(&["vCPU 0", "vCPU 1", "emulator"]) && roles.contains(&"I/O thread"),
            "{roles:?}"
        );
        let vcpu = shown["threads"][0]["id"].as_u64().unwrap() as u32;
        let placed = |thread: &Thread| match thread.id == vcpu {
            true => (thread.cpus.as_str(), thread.policy, thread.priority) == (last.as_str(), 1, 4),
            false => thread.policy == 0,
        };
        let now = of(qemu.id());
        assert!(now.iter().all(placed), "{now:#?}");
        let main = now.iter().find(|thread| thread.id == qemu.id()).unwrap();
        assert_eq!(main.cpus, first);

        let detached = Run::new(&["vm", "detach", "--format", "json"]).args(&all[..4]).finish();
        assert_eq!(detached.code, Some(0), "{detached}");
        let shown: serde_json::Value = serde_json::from_str(&detached.stdout).unwrap();
        fits(&shown);
        assert_eq!(shown["process"], qemu.id());
        let values = shown["values"].as_array().unwrap();
        assert!(!values.is_empty() && values.iter().all(|one| one["outcome"] == "restored"), "{shown:#}");
        assert_eq!(of(qemu.id()), before);
        assert!(!files.path("journal").exists());
        let again = Run::new(&["vm", "detach"]).args(&all[..4]).finish();
        assert!(again.code == Some(0) && again.stdout.contains("nothing to put back"), "{again}");
    }
}

#[test]
fn what_cannot_be_attached_to_is_said() {
    let files = Files::make();
    let mut qemu = qemu(&files, true);
    let pid = qemu.id().to_string();
    let (first, last) = two_cpus();
    // Its memory is not locked, which only its start could have done.
    let refused = Run::new(&["vm", "attach", "--pid", &pid, "--vcpu-cpus", &last, "--housekeeping", &first])
        .args(&["--journal", &files.text("journal")])
        .finish();
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(
        refused.stderr.contains("mem-lock=on") && refused.stderr.contains("nothing was changed"),
        "{refused}"
    );
    assert!(!files.path("journal").exists());
    qemu.kill().unwrap();
    assert!(wait_until(|| of(qemu.id()).is_empty()));
    for (arguments, told) in [
        (&["--pid", &pid][..], "no such process"),
        (&["no-such-domain"][..], "virsh list"),
        (&["--pid", "1", "--qmp", "/none"][..], "/none"),
    ] {
        let run = Run::new(&["vm", "attach"]).args(arguments).finish();
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains(told), "{told}: {run}");
    }
}
