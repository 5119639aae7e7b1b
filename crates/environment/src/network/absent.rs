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

/// All paths into a guest, and those that need a device or a program of somebody else's. None of them is started yet;
/// of each is said first what this machine lacks for it.
pub fn absent_paths() -> Vec<AbsentPath> {
    let no_device = |file: &str, remedy: &str| {
        (!Path::new(file).exists())
            .then(|| Failure::new(format!("opening {file}"), "No such file or directory", remedy))
    };
    let no_program = |name: &str, remedy: &str| {
        find_command(name)
            .is_none()
            .then(|| Failure::new(format!("looking for {name}"), "not installed", remedy))
    };
    let vhost = || {
        no_device("/dev/vhost-net", "load vhost_net as root (modprobe vhost_net), with a kernel that has it")
    };
    let guest = || {
        Failure::new(
            "starting a guest on a network path",
            "`compare` does not do that yet",
            "`make bench-peers` measures packet rates into guests; `make nested` has vhost-net, macvtap and VFIO",
        )
    };
    let dpdk = || {
        Failure::new(
            "starting a DPDK application at the near end",
            "`compare` does not do that yet: the agent uses sockets",
            "`make bench-peers` measures testpmd over virtio-user",
        )
    };
    let qemu = || no_program(crate::vm::QEMU, "install QEMU (`make setup` does)");
    let path = |pieces: &[&'static str], reason: Failure| AbsentPath { pieces: pieces.to_vec(), reason };
    vec![
        path(&["guest", "e1000", "tap"], qemu().unwrap_or_else(guest)),
        path(&["guest", "virtio", "tap"], qemu().unwrap_or_else(guest)),
        path(&["guest", "virtio", "vhost-net", "tap"], vhost().unwrap_or_else(guest)),
        path(&["guest", "virtio", "vhost-net", "macvtap"], vhost().unwrap_or_else(guest)),
        path(&["guest", "vhost-user", "switch"], qemu().unwrap_or_else(guest)),
        path(
            &["guest", "vhost-user", "OVS-DPDK"],
            no_program("ovs-vswitchd", "install Open vSwitch with DPDK, and give it huge pages")
                .unwrap_or_else(guest),
        ),
        path(
            &["guest", "VFIO"],
            no_device(
                "/dev/vfio/vfio",
                "boot with an IOMMU (intel_iommu=on or amd_iommu=on) and load vfio_pci",
            )
            .unwrap_or_else(guest),
        ),
        path(&["container", "virtio-user", "switch"], dpdk()),
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
