//! How often the payload of a frame is copied on a path: the sum of what the devices of the path do with a frame.
//! docs/what-does-a-packet-cost.md names the source of each step, and what counts it in a test.

use measure::network::Copies;

use super::{GuestNic, Layer, NearEnd, PathDescription};

/// The kernel copies a frame when a program, or its own vhost-net, reads it from a TAP or macvtap device or writes it to
/// one.
const TAP: u32 = 1;
/// A switch of ours copies a frame into the receiver's ring. A frame that it writes to a TAP stays in the sender's memory
/// until the kernel copies it.
const INTO_RING: u32 = 1;
/// The kernel copies a frame into the bounce area of a VDUSE device, or out of it, for its own driver.
const BOUNCE: u32 = 1;
/// QEMU copies a frame between a buffer of its own and the guest's memory.
const BY_QEMU: u32 = 1;
/// DPDK's vhost library copies a frame between a guest's ring and an mbuf.
const MBUF: u32 = 1;
/// Open vSwitch copies a frame of an interface of the kernel to an mbuf.
const TO_MBUF: u32 = 1;

impl PathDescription {
    /// How often CPUs copy the payload of a frame on this path, in each direction. Layers of the kernel hand a socket
    /// buffer on, and a card transfers frames by itself.
    pub fn copies(&self) -> Copies {
        let (from_near, from_far) = match (self.near, &self.layers[..]) {
            (NearEnd::Guest(nic), layers) => of_guest(nic, layers),
            (_, [Layer::Switch, ..]) => (TAP + TAP, TAP + TAP),
            (_, [Layer::Vduse, ..]) => (BOUNCE + INTO_RING + BOUNCE, BOUNCE + INTO_RING + BOUNCE),
            _ => (0, 0),
        };
        Copies { from_near, from_far }
    }
}

/// The copies of a frame that the guest sends, and of one that it receives.
fn of_guest(nic: GuestNic, layers: &[Layer]) -> (u32, u32) {
    match (nic, layers) {
        (GuestNic::E1000, _) => (BY_QEMU + TAP, TAP + BY_QEMU),
        // QEMU writes from the guest's memory, and reads into its own.
        (GuestNic::Virtio, _) => (TAP, TAP + BY_QEMU),
        (GuestNic::VhostNet, _) => (TAP, TAP),
        (GuestNic::VhostUser | GuestNic::VhostUserPacked, [Layer::OvsDpdk]) => {
            (MBUF + TAP, TAP + TO_MBUF + MBUF)
        }
        (GuestNic::VhostUser | GuestNic::VhostUserPacked, _) => (TAP, TAP + INTO_RING),
        // The guest's own memory is the device's: only the far end has a bounce area.
        (GuestNic::Vdpa, _) => (INTO_RING + BOUNCE, BOUNCE + INTO_RING),
        (GuestNic::Vfio, _) => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_each_path_are_those_of_the_page() {
        let page = include_str!("../../../../docs/what-does-a-packet-cost.md");
        let section = page.split("\n## Copies\n").nth(1).expect("the section");
        let rows: Vec<[&str; 3]> = section
            .lines()
            .filter_map(|line| {
                let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
                cells.get(..3)?.try_into().ok()
            })
            .collect();
        let all = PathDescription::all().into_iter().chain(PathDescription::over_vduse());
        for path in all.chain([PathDescription::over_card()]) {
            let Copies { from_near, from_far } = path.copies();
            let wanted = [&*format!("`{}`", path.name()), &*from_near.to_string(), &*from_far.to_string()];
            let is_row = |row: &&[&str; 3]| row[0].split(", ").any(|name| name == wanted[0]);
            let found: Vec<_> = rows.iter().filter(is_row).collect();
            assert!(matches!(found[..], [row] if row[1..] == wanted[1..]), "{wanted:?}: {found:?}");
        }
    }
}
