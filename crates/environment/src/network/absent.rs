use std::path::Path;

use measure::Failure;

use crate::command::find_command;

/// A path that no run can start here: its pieces, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct AbsentPath {
    /// From the near end on.
    pub pieces: Vec<&'static str>,
    /// What was looked for, what was found, what to do.
    pub reason: Failure,
}

/// The paths that need a device or a program of somebody else's. None of them is started yet; of each is said first what
/// this machine lacks for it.
pub fn absent_paths() -> Vec<AbsentPath> {
    let not_yet = |doing: &str, remedy: &str| Failure::new(doing, "`compare` does not do that yet", remedy);
    let dpdk = not_yet(
        "starting a DPDK application at the near end",
        "`make bench-peers` measures testpmd over virtio-user",
    );
    let ovs = || match find_command("ovs-vswitchd") {
        None => Failure::new(
            "looking for ovs-vswitchd",
            "not installed",
            "install Open vSwitch with DPDK, and give it huge pages",
        ),
        Some(_) => not_yet(
            "starting a guest at OVS-DPDK",
            "`make bench-peers` measures packet rates through OVS-DPDK",
        ),
    };
    let assigned = || match Path::new("/dev/vfio/vfio").exists() {
        false => Failure::new(
            "opening /dev/vfio/vfio",
            "No such file or directory",
            "boot with an IOMMU (intel_iommu=on or amd_iommu=on) and load vfio_pci",
        ),
        true => not_yet("assigning a card to a guest", "`tautline vm run --assign` does"),
    };
    let path = |pieces: &[&'static str], reason: Failure| AbsentPath { pieces: pieces.to_vec(), reason };
    vec![
        path(&["guest", "vhost-user", "OVS-DPDK"], ovs()),
        path(&["guest", "VFIO"], assigned()),
        path(&["container", "virtio-user", "switch"], dpdk),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_what_was_looked_for_and_what_to_do() {
        for path in absent_paths() {
            let Failure { tried, answer, remedy } = path.reason;
            assert!(!tried.is_empty() && !answer.is_empty() && !remedy.is_empty(), "{:?}", path.pieces);
        }
    }
}
