use std::path::Path;

use linux::vduse::{CONTROL, Control};
use measure::Failure;

use super::PathDescription;

/// A path that no run can start here: the names of its parts, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct AbsentPath {
    /// The names of the parts, from the near end to the far end.
    pub pieces: Vec<String>,
    /// What was searched, what was found, and what the user can do.
    pub reason: Failure,
}

/// The paths that need more options, or that no run starts yet.
pub fn absent_paths(has_card: bool) -> Vec<AbsentPath> {
    let dpdk = Failure::new(
        "starting a DPDK application at the near end",
        "`compare` does not do that yet",
        "`make bench-peers` measures testpmd over virtio-user",
    );
    let pieces = ["container", "virtio-user", "switch"].map(str::to_owned).to_vec();
    let mut absent = vec![AbsentPath { pieces, reason: dpdk }];
    absent.extend(no_vduse().into_iter().flat_map(|reason| {
        PathDescription::over_vduse().map(|path| AbsentPath { pieces: path.pieces(), reason: reason.clone() })
    }));
    if !has_card {
        absent.push(AbsentPath { pieces: PathDescription::over_card().pieces(), reason: no_card() });
    }
    absent
}

/// Why there are no paths over VDUSE; `None` if there are.
pub fn no_vduse() -> Option<Failure> {
    let error = Control::open().err()?;
    let remedy = "as root: modprobe -a vduse virtio_vdpa vhost_vdpa; `tautline doctor --require vduse` names what the kernel needs";
    Some(Failure::new(format!("opening {CONTROL}"), error, remedy))
}

fn no_card() -> Failure {
    match Path::new("/sys/kernel/iommu_groups").read_dir().is_ok_and(|mut groups| groups.next().is_some()) {
        false => Failure::new(
            "looking for IOMMU groups in /sys/kernel/iommu_groups",
            "there are none",
            "boot with an IOMMU (intel_iommu=on or amd_iommu=on) and load vfio_pci",
        ),
        true => Failure::new(
            "handing on a network card",
            "none was named, and the host cannot use the card meanwhile",
            "name it, and the interface that its cable ends at: --assign 06:00.0 --assign-far eth1",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_what_was_looked_for_and_what_to_do() {
        for path in absent_paths(false) {
            let Failure { tried, answer, remedy } = path.reason;
            assert!(!tried.is_empty() && !answer.is_empty() && !remedy.is_empty(), "{:?}", path.pieces);
        }
        assert_eq!(absent_paths(true).len() + 1, absent_paths(false).len());
    }
}
