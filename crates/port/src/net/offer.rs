//! The features that a network device offers, and why it does not offer others.
//!
//! Device features (VIRTIO 1.3 §5.1.3, §6):
//!
//! | feature | offered |
//! |---|---|
//! | VERSION_1, RING_PACKED, RING_INDIRECT_DESC, RING_EVENT_IDX, IN_ORDER | yes, each has an option to switch it off |
//! | NET_MRG_RXBUF | with `mergeable` |
//! | NET_CSUM, NET_HOST_TSO4, _TSO6, _ECN, _UFO, _USO | with `offloads` |
//! | NET_GUEST_CSUM, NET_GUEST_TSO4, _TSO6, _ECN, _UFO, _USO4, _USO6 | with `offloads` |
//! | NET_MQ | with more than one queue pair; SET_VRING_ENABLE says which of them run |
//! | NET_MTU | with `mtu`; else to vhost-user front-ends that do not read this port's configuration space |
//! | NET_MAC | with `mac` |
//! | NET_GUEST_ANNOUNCE | to vhost-user front-ends: the announcement is an ordinary frame; without it QEMU sends RARP |
//! | NET_CTRL_VQ, NET_CTRL_GUEST_OFFLOADS | with `control_queue`; QEMU and DPDK serve it themselves |
//! | NET_CTRL_RX, _RX_EXTRA, _VLAN, _MAC_ADDR | only with `mac`, because otherwise the guest's own frames are not known |
//! | NET_STATUS, NET_STANDBY, NET_SPEED_DUPLEX | no: the front-end offers these; the back-end does not know the values |
//! | ACCESS_PLATFORM | by VDUSE alone, whose addresses are those of the mapped memory; no port has an IOTLB |
//! | ORDER_PLATFORM, NOTIFICATION_DATA | no: both ends are CPUs of one machine, and kicks are eventfds |
//! | RING_RESET | no: QEMU passes the bit on, but can reset a single queue only with the kernel's vhost: rings would break |
//! | NET_RSS, NET_HASH_REPORT | no: no hash is computed |
//! | NET_GUEST_HDRLEN | no: header lengths are only a hint, which the switch does not use |
//!
//! Protocol features (vhost-user specification, "Protocol features"), in addition to those that `vhost-device` offers
//! for each device:
//!
//! | feature | offered |
//! |---|---|
//! | RARP, MTU | yes |
//! | CONFIG | only with `mac` or `mtu`, because otherwise there is nothing to read, and QEMU warns at every start |
use vhost_user::bits::ProtocolFeatures;
use virtio::net::{GUEST_SEGMENTATION, HOST_SEGMENTATION};
use virtio::{Features, NetFeatures};

use super::options::{FrontEnd, NetOptions};

/// The device features that are offered.
pub(crate) fn features(options: &NetOptions) -> Features {
    let mut offered = Features::empty().union(Features::VERSION_1);
    let mut offer = |wanted: bool, features: &[Features]| {
        if wanted {
            offered = features.iter().fold(offered, |set, feature| set.union(*feature));
        }
    };
    let is_vhost_user = options.front_end == FrontEnd::VhostUser;
    offer(is_vhost_user, &[NetFeatures::GUEST_ANNOUNCE]);
    offer(options.packed, &[Features::RING_PACKED]);
    offer(options.in_order, &[Features::IN_ORDER]);
    offer(options.event_idx, &[Features::RING_EVENT_IDX]);
    offer(options.indirect, &[Features::RING_INDIRECT_DESC]);
    offer(options.mergeable, &[NetFeatures::MRG_RXBUF]);
    offer(options.queue_pairs > 1, &[NetFeatures::MQ]);
    offer(options.mtu.is_some() || is_vhost_user && !has_config(options), &[NetFeatures::MTU]);
    offer(options.mac.is_some(), &[NetFeatures::MAC]);
    offer(options.control_queue, &[NetFeatures::CTRL_VQ]);
    offer(options.control_queue && options.offloads, &[NetFeatures::CTRL_GUEST_OFFLOADS]);
    offer(
        options.control_queue && options.mac.is_some(),
        &[
            NetFeatures::CTRL_RX,
            NetFeatures::CTRL_RX_EXTRA,
            NetFeatures::CTRL_VLAN,
            NetFeatures::CTRL_MAC_ADDR,
        ],
    );
    offer(options.offloads, &[NetFeatures::CSUM, NetFeatures::GUEST_CSUM]);
    offer(options.offloads, &HOST_SEGMENTATION);
    offer(options.offloads, &GUEST_SEGMENTATION);
    offered
}

/// Whether the configuration space has a value that the front-end does not have itself.
pub(crate) fn has_config(options: &NetOptions) -> bool {
    options.mac.is_some() || options.mtu.is_some()
}

/// The largest number of rings.
pub(crate) fn queue_count(options: &NetOptions) -> u16 {
    2 * options.queue_pairs + u16::from(options.control_queue)
}

/// The protocol features that are offered in addition to those of each device.
pub(crate) fn protocol_features(options: &NetOptions) -> ProtocolFeatures {
    let mut protocol = ProtocolFeatures::RARP | ProtocolFeatures::MTU;
    protocol.set(ProtocolFeatures::CONFIG, has_config(options));
    protocol
}
