//! VLANs: which frames of a port belong to which VLAN, and with which tags they leave at another port. Ports have the modes
//! of Open vSwitch, `tag`, `trunks` and `vlan_mode` of its ports (ovs-vswitchd.conf.db(5), "VLAN Configuration").
mod learning;
mod port;
mod tags;
#[cfg(test)]
mod tests;

pub use learning::VlanLearning;
pub use port::{PortVlans, PriorityTags, VlanMode, VlanOptions};

/// The VLAN of the outermost tag of a frame that begins with these bytes, 0 if there is none.
pub(crate) fn vlan_of(head: &[u8]) -> u16 {
    tags::Tags::of(head).vlan()
}
