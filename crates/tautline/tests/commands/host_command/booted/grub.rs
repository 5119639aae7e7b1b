//! GRUB's files, changed as a plan says and sourced by a shell: a kernel boots with the line that they give.

use std::process::Command;

use host::{HostTree, Plan, Survey, Wishes};

use super::cpu_lists::boot;
use crate::host_command::unpack;

#[test]
fn a_kernel_boots_with_the_planned_line() {
    let folder = unpack("realtime");
    let file = folder.path().join("etc/default/grub");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = "GRUB_CMDLINE_LINUX_DEFAULT='splash isolcpus=1 rcu-nocbs=all'  # by the installer's hand\n\
                GRUB_CMDLINE_LINUX=\"net.ifnames=0 \\\n  audit=0\"\n";
    std::fs::write(&file, text).unwrap();
    let cpus = "sys/devices/system/cpu";
    for (path, text) in
        [("proc/cmdline", "ro"), (&format!("{cpus}/isolated"), ""), (&format!("{cpus}/nohz_full"), "")]
    {
        std::fs::write(folder.path().join(path), format!("{text}\n")).unwrap();
    }
    let tree = HostTree::at(folder.path());
    let wishes = Wishes {
        profile: host::Profile::RealtimeHost,
        isolate: Some("2-3".parse().unwrap()),
        guest_memory_mib: None,
        timer_migration: 0,
        watch: std::time::Duration::ZERO,
    };
    let boot_line = Plan::of(&Survey::of(&tree, &wishes).unwrap()).boot.unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    for edit in &boot_line.loaders.iter().find(|loader| loader.name == "GRUB").unwrap().edits {
        lines[edit.number.unwrap() - 1] = &edit.line;
    }
    std::fs::write(&file, lines.join("\n")).unwrap();
    let script = ". \"$0\"; printf '%s' \"$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\"";
    let output = Command::new("sh").args(["-c", script]).arg(&file).output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();

    let guest = boot(&line);
    let booted = guest.must("cat /proc/cmdline");
    let words: Vec<&str> = booted.split_whitespace().collect();
    for parameter in
        boot_line.parameters.iter().map(String::as_str).chain(["net.ifnames=0", "audit=0", "splash"])
    {
        assert_eq!(words.iter().filter(|word| **word == parameter).count(), 1, "{parameter} in {booted}");
    }
    assert!(!words.contains(&"isolcpus=1") && !words.contains(&"rcu-nocbs=all"), "{booted}");
    for (name, cpus) in [("isolated", "2-3"), ("nohz_full", "2-3")] {
        assert_eq!(guest.must(&format!("cat /sys/devices/system/cpu/{name}")).trim(), cpus, "{booted}");
    }
}
