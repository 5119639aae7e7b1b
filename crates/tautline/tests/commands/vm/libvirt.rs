//! `vm attach` to a domain that libvirt started: a daemon of its own, as an ordinary user, in a folder of this test.

use super::threads::{Thread, of, two_cpus};
use crate::common::libvirt::Libvirt;
use crate::common::{Run, wait_until};

#[test]
fn a_domain_is_found_by_its_name_pinned_and_put_back() {
    let (first, last) = two_cpus();
    let libvirt = Libvirt::start();
    let folder = libvirt.folder();
    let pid = libvirt.create("pinned", "<vcpu>2</vcpu><iothreads>1</iothreads>", "", &["--paused"]);
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

    assert!(libvirt.virsh(&["destroy", "pinned"]).status.success());
    assert!(wait_until(|| of(pid).is_empty()));
}
