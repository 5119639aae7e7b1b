use std::collections::BTreeMap;
use std::fs;

use measure::Failure;

use super::cgroup_tree::{Hierarchy, Version, hierarchies};
use crate::finding::Finding;
use crate::leftover::Folder;

/// The controllers that containers and isolation need.
const WANTED: [&str; 3] = ["cpu", "cpuset", "memory"];

/// Creates and removes a cgroup in each hierarchy, and looks for the controllers cpu, cpuset and memory.
///
/// # Errors
/// No cgroup file system is mounted, or every hierarchy refuses a new cgroup.
pub fn run() -> Result<Finding, Failure> {
    let hierarchies = hierarchies();
    let remedy =
        "mount cgroup2 on /sys/fs/cgroup, as systemd does; in a container, start it with a writable cgroup";
    if hierarchies.is_empty() {
        return Err(Failure::new(
            "looking for cgroup file systems in /proc/self/mountinfo",
            "none is mounted",
            remedy,
        ));
    }
    let controllers: Vec<&str> =
        hierarchies.iter().flat_map(|tree| &tree.controllers).map(String::as_str).collect();
    let layout = format!("{}, controllers {}", layout(&hierarchies), controllers.join(" "));
    let lacking: Vec<&str> = WANTED.into_iter().filter(|name| !controllers.contains(name)).collect();

    let mut made = Vec::new();
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for hierarchy in hierarchies.iter().filter(|tree| tree.version == Version::V2 || tree.has_any(&WANTED)) {
        match create_and_remove(hierarchy) {
            Ok(()) => made.push(hierarchy.own.display().to_string()),
            Err(error) => {
                refused.entry(error.to_string()).or_default().push(hierarchy.own.display().to_string());
            }
        }
    }
    let tried = format!("{layout}; created and removed a cgroup in {}", made.join(", "));
    // Equal answers are reported once.
    let refused: Vec<String> =
        refused.into_iter().map(|(error, places)| format!("{}: {error}", places.join(", "))).collect();
    let refused = refused.join("; ");
    Ok(match (made.is_empty(), refused.is_empty() && lacking.is_empty()) {
        (false, true) => Finding::proven(tried),
        (false, false) => {
            let lacking = if lacking.is_empty() { "none".into() } else { lacking.join(" ") };
            let refused = if refused.is_empty() { "none".into() } else { refused };
            Finding::partial(format!("{tried}; refused: {refused}; controllers not there: {lacking}"), remedy)
        }
        (true, _) => {
            let remedy = "run as root, or below `systemd-run --user --scope -p Delegate=yes`";
            return Err(Failure::new(format!("{layout}; creating a cgroup"), refused, remedy));
        }
    })
}

impl Hierarchy {
    fn has_any(&self, controllers: &[&str]) -> bool {
        controllers.iter().any(|controller| self.has(controller))
    }
}

fn create_and_remove(hierarchy: &Hierarchy) -> std::io::Result<()> {
    let cgroup = Folder::create_in(&hierarchy.own)?;
    // The kernel fills a cgroup with files; a plain folder stays empty.
    fs::read(cgroup.path().join("cgroup.procs"))?;
    cgroup.remove()
}

fn layout(hierarchies: &[Hierarchy]) -> &'static str {
    let has = |version| hierarchies.iter().any(|hierarchy| hierarchy.version == version);
    match (has(Version::V1), has(Version::V2)) {
        (true, true) => "version 1 and 2 side by side (hybrid)",
        (true, false) => "version 1",
        (false, _) => "version 2",
    }
}
