//! Exports, judged by the tools they are for.

use std::process::Command;

use host::tuning::{CpuList, export};

fn guest(cpus: &str, memory_mib: u64) -> export::Guest {
    let list = |text: &str| text.parse::<CpuList>().unwrap();
    export::Guest::new("realtime-guest", list(cpus), list("0-1"), memory_mib).unwrap()
}

#[test]
fn libvirts_own_schema_takes_the_domain() {
    for (cpus, memory) in [("2", 512), ("2-5", 4096), ("4-27,60-83", 65536)] {
        let guest = guest(cpus, memory);
        let domain = export::libvirt(&guest);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("domain.xml");
        std::fs::write(&file, &domain).unwrap();
        let output = Command::new("virt-xml-validate").arg(&file).arg("domain").output();
        let output = output.expect("virt-xml-validate: scripts/setup.sh test installs it");
        assert!(output.status.success(), "{}\n{domain}", String::from_utf8_lossy(&output.stderr));
        // A published example pins vCPUs that its guest does not have.
        let count = cpus.parse::<CpuList>().unwrap().len();
        assert_eq!(domain.matches("<vcpupin ").count(), count);
        assert!(domain.contains(&format!("<vcpu placement=\"static\">{count}</vcpu>")));
        assert!(!domain.contains(&format!("vcpu=\"{count}\"")), "{domain}");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let domain = export::libvirt(&guest("2", 512)).replace("<locked/>", "<lokked/>");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("domain.xml");
    std::fs::write(&file, domain).unwrap();
    let output = Command::new("virt-xml-validate").arg(&file).arg("domain").output().unwrap();
    assert!(!output.status.success());
}

#[test]
fn kubevirts_manifest_reads_back() {
    let text = export::kubevirt(&guest("2-5", 4096));
    let manifest: serde_json::Value = serde_yaml_ng::from_str(&text).unwrap();
    let cpu = &manifest["spec"]["template"]["spec"]["domain"]["cpu"];
    assert_eq!(cpu["cores"], 4);
    assert_eq!(cpu["realtime"]["mask"], "1-3");
    assert_eq!(cpu["dedicatedCpuPlacement"], true);
}

#[test]
fn every_export_says_what_its_tool_cannot_express() {
    let guest = guest("2-5", 4096);
    for text in [
        export::libvirt(&guest),
        export::nova(&guest),
        export::kubevirt(&guest),
        export::qemu(&guest),
        export::systemd(&guest),
    ] {
        assert!(text.contains("cannot express"), "{text}");
    }
}

#[test]
fn a_guest_without_room_is_refused() {
    let list = |text: &str| text.parse::<CpuList>().unwrap();
    for (name, cpus, housekeeping) in
        [("Guest", "2", "0"), ("g", "", "0"), ("g", "2", "2"), ("g", "2", ""), ("../g", "2", "0")]
    {
        assert!(export::Guest::new(name, list(cpus), list(housekeeping), 512).is_err(), "{name} {cpus}");
    }
}
