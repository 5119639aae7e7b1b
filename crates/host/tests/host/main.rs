//! Audit, plan, apply and undo over hosts as one text file each; the first lines of each file say where it is from.

mod audits;
mod command_lines;
mod exports;
mod grub;
mod hostile;
mod plans;
mod toggles;
mod undo;
mod unreadable;

use std::path::Path;
use std::time::Duration;

use host::{Audit, HostTree, Plan, Profile, Survey, Wishes, recorded, rules::State};

/// The hosts, with the CPUs to set aside on each.
const HOSTS: [(&str, &str); 17] = [
    ("intel", "2-3,6-7"),
    ("amd", "4-7"),
    ("arm", "2-3"),
    ("realtime", "2-3"),
    ("one-cpu", ""),
    ("112-cpus", "4-27,60-83"),
    ("container", "2-3"),
    ("two-nodes", "5-7"),
    ("memoryless-node", "7-8"),
    ("recorded/intel", "2-3,6-7"),
    ("recorded/amd", "4-7"),
    ("recorded/arm", "2-3"),
    ("recorded/container", "2-3"),
    ("recorded/realtime", "2-3"),
    ("recorded/one-cpu", ""),
    ("recorded/two-nodes", "5-7"),
    ("recorded/112-cpus", "4-27,60-83"),
];

/// A host unpacked into a folder that goes with it.
struct Host {
    folder: tempfile::TempDir,
    tree: HostTree,
    wishes: Wishes,
}

impl Host {
    fn of(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/host/hosts/{name}.host"));
        let text = std::fs::read_to_string(file).unwrap();
        let folder = tempfile::tempdir().unwrap();
        recorded::unpack(&text, folder.path()).unwrap();
        let tree = HostTree::at(folder.path());
        let isolate = HOSTS.iter().find(|(host, _)| *host == name).unwrap().1.parse().unwrap();
        Host { folder, tree, wishes: wishes(isolate) }
    }

    fn all() -> impl Iterator<Item = (&'static str, Host)> {
        HOSTS.iter().map(|(name, _)| (*name, Host::of(name)))
    }

    fn audit(&self) -> Audit {
        Audit::of(&Survey::of(&self.tree, &self.wishes).unwrap())
    }

    fn plan(&self) -> Plan {
        Plan::of(&Survey::of(&self.tree, &self.wishes).unwrap())
    }
}

fn wishes(isolate: host::WrittenCpus) -> Wishes {
    Wishes {
        profile: Profile::RealtimeHost,
        isolate: Some(isolate),
        guest_memory_mib: Some(1024),
        timer_migration: 0,
        watch: Duration::ZERO,
    }
}

fn state(audit: &Audit, rule: &str) -> State {
    audit.findings.iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("{rule}")).state
}

fn found<'a>(audit: &'a Audit, rule: &str) -> &'a str {
    &audit.findings.iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("{rule}")).found
}
