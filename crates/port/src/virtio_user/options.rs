//! The options of a `virtio-user` port.
use std::path::PathBuf;

use virtio::net::{GUEST_SEGMENTATION, HOST_SEGMENTATION};
use virtio::{Features, NetFeatures};
use virtqueue::RingLayout;

use crate::PortError;
use net_queues::driver::{LONGEST_BYTES, MAX_BUFFERS_PER_FRAME, Pages, QueueShape};

/// Ethernet header, one VLAN tag and net header: what a buffer holds beside the payload.
const OVERHEAD_BYTES: u32 = 14 + 4 + 12;

/// The least bytes of a buffer, so that a frame of 64 KiB fits into [`MAX_BUFFERS_PER_FRAME`] buffers.
pub(super) const LEAST_BUFFER_BYTES: u32 =
    LONGEST_BYTES.div_ceil(MAX_BUFFERS_PER_FRAME as u32).next_multiple_of(64);

/// The options of a port. Features that the peer does not have are left out during negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtioUserOptions {
    /// The vhost-user socket.
    pub path: PathBuf,
    /// Whether the port listens at the socket and the back-end connects (`dpdkvhostuserclient` of OVS), instead of
    /// the other way round.
    pub server: bool,
    /// The most queue pairs. A back-end that reports its number of queues gets no more than that. DPDK's vhost
    /// library reports 128, however many its program serves, so set no more than the program serves.
    pub queue_pairs: u16,
    /// Descriptors of each queue; a power of two.
    pub queue_size: u16,
    /// Buffers of each queue, at most `queue_size`.
    pub buffers: u16,
    /// Bytes of each buffer, including the net header.
    pub buffer_bytes: u32,
    /// Packed rings.
    pub packed: bool,
    /// Whether buffers are used in order.
    pub in_order: bool,
    /// Whether a received frame may span several buffers.
    pub mergeable: bool,
    /// Whether notifications are suppressed by position (EVENT_IDX).
    pub event_idx: bool,
    /// Whether checksums and segmentation may be left to the receiver, in both directions.
    pub offloads: bool,
    /// The largest payload of a frame in bytes, which the back-end is told.
    pub mtu_bytes: Option<u16>,
    /// The pages of the memory.
    pub pages: Pages,
}

impl VirtioUserOptions {
    /// One pair of packed queues with all features that make them faster.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        VirtioUserOptions {
            path: path.into(),
            server: false,
            queue_pairs: 1,
            queue_size: 256,
            buffers: 256,
            buffer_bytes: 2048,
            packed: true,
            in_order: true,
            mergeable: true,
            event_idx: true,
            offloads: true,
            mtu_bytes: None,
            pages: Pages::Small,
        }
    }

    /// Checks the options and says which one is wrong.
    pub(super) fn check(&self) -> Result<(), PortError> {
        let wrong = |what: &str, remedy: &str| {
            let what = format!("virtio-user {}: {what}", self.path.display());
            Err(PortError::new(what, "not possible", remedy))
        };
        vhost_device::unix_socket::check("virtio-user", &self.path)?;
        if !(1..=128).contains(&self.queue_pairs) {
            return wrong(&format!("{} queue pairs", self.queue_pairs), "choose 1 to 128");
        }
        if !self.queue_size.is_power_of_two() || self.queue_size > 32768 {
            let what = format!("queue size {}", self.queue_size);
            return wrong(&what, "choose a power of two up to 32768");
        }
        if !(1..=self.queue_size).contains(&self.buffers) {
            let what = format!("{} buffers", self.buffers);
            return wrong(&what, "choose 1 to as many as the queue's size");
        }
        if !(LEAST_BUFFER_BYTES..=65536).contains(&self.buffer_bytes) {
            let what = format!("buffers of {} bytes", self.buffer_bytes);
            return wrong(&what, &format!("choose {LEAST_BUFFER_BYTES} to 65536"));
        }
        if self.mtu_bytes.is_some_and(|mtu| mtu < 68) {
            return wrong("an MTU below 68 bytes", "choose 68 or more (RFC 791)");
        }
        Ok(())
    }

    /// The features that are accepted if the peer offers them.
    pub(super) fn features(&self) -> Features {
        let mut wanted =
            Features::empty().union(Features::VERSION_1).union(Features::VHOST_PROTOCOL_FEATURES);
        let mut want = |yes: bool, features: &[Features]| {
            if yes {
                wanted = features.iter().copied().fold(wanted, Features::union);
            }
        };
        want(self.packed, &[Features::RING_PACKED]);
        want(self.in_order, &[Features::IN_ORDER]);
        want(self.mergeable, &[NetFeatures::MRG_RXBUF]);
        want(self.event_idx, &[Features::RING_EVENT_IDX]);
        want(self.queue_pairs > 1, &[NetFeatures::MQ]);
        want(self.mtu_bytes.is_some(), &[NetFeatures::MTU]);
        want(self.offloads, &[Features::RING_INDIRECT_DESC, NetFeatures::CSUM, NetFeatures::GUEST_CSUM]);
        want(self.offloads, &HOST_SEGMENTATION);
        // Without mergeable buffers each would have to hold 64 KiB (VIRTIO 1.3 §5.1.6.3.1).
        want(self.offloads && self.mergeable, &GUEST_SEGMENTATION);
        wanted
    }

    /// The shape of a queue with these features. Without MRG_RXBUF, a buffer is large enough for the MTU.
    pub(super) fn queue(&self, features: Features, receives: bool) -> QueueShape {
        let whole = receives && !features.contains(NetFeatures::MRG_RXBUF);
        let frame = self.mtu_bytes.filter(|_| whole).map_or(0, |mtu| u32::from(mtu) + OVERHEAD_BYTES);
        let buffer_bytes = self.buffer_bytes.max(frame);
        let tables = !receives && features.contains(Features::RING_INDIRECT_DESC);
        QueueShape {
            layout: if features.contains(Features::RING_PACKED) {
                RingLayout::Packed
            } else {
                RingLayout::Split
            },
            size: self.queue_size,
            buffers: self.buffers,
            buffer_bytes,
            table_entries: if tables { LONGEST_BYTES.div_ceil(buffer_bytes) as u16 } else { 0 },
        }
    }
}

/// The features that both sides want, without those that depend on a missing one (VIRTIO 1.3 §5.1.3.1).
pub(super) fn agree(offered: Features, wanted: Features) -> Features {
    let both = offered & wanted;
    let needs = [
        (NetFeatures::GUEST_TSO4, NetFeatures::GUEST_CSUM),
        (NetFeatures::GUEST_TSO6, NetFeatures::GUEST_CSUM),
        (NetFeatures::GUEST_UFO, NetFeatures::GUEST_CSUM),
        (NetFeatures::GUEST_USO4, NetFeatures::GUEST_CSUM),
        (NetFeatures::GUEST_USO6, NetFeatures::GUEST_CSUM),
        (NetFeatures::HOST_TSO4, NetFeatures::CSUM),
        (NetFeatures::HOST_TSO6, NetFeatures::CSUM),
        (NetFeatures::HOST_UFO, NetFeatures::CSUM),
        (NetFeatures::HOST_USO, NetFeatures::CSUM),
    ];
    let both = needs
        .iter()
        .fold(both, |set, (one, ground)| if set.contains(*ground) { set } else { set.difference(*one) });
    let ecn = [
        (NetFeatures::GUEST_ECN, NetFeatures::GUEST_TSO4, NetFeatures::GUEST_TSO6),
        (NetFeatures::HOST_ECN, NetFeatures::HOST_TSO4, NetFeatures::HOST_TSO6),
    ];
    ecn.iter().fold(both, |set, (ecn, v4, v6)| match set.contains(*v4) || set.contains(*v6) {
        true => set,
        false => set.difference(*ecn),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut VirtioUserOptions)) -> String {
        let mut options = VirtioUserOptions::new("/tmp/a.sock");
        assert!(options.check().is_ok());
        change(&mut options);
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_is_named_with_what_can() {
        assert!(refused(|o| o.path = "a".repeat(108).into()).contains("107"));
        assert!(refused(|o| o.queue_pairs = 0).contains("1 to 128"));
        assert!(refused(|o| o.queue_pairs = 129).contains("1 to 128"));
        assert!(refused(|o| o.queue_size = 100).contains("power of two"));
        assert!(refused(|o| o.queue_size = 0).contains("power of two"));
        assert!(refused(|o| o.buffers = 257).contains("as many as the queue's size"));
        assert!(refused(|o| o.buffers = 0).contains("as many as the queue's size"));
        assert!(refused(|o| o.buffer_bytes = 1024).contains("1088"));
        assert!(refused(|o| o.mtu_bytes = Some(67)).contains("68"));
    }

    #[test]
    fn nothing_is_accepted_without_its_ground() {
        let wanted = VirtioUserOptions::new("/tmp/a.sock").features();
        assert_eq!(agree(wanted, wanted), wanted);
        let bare = wanted.difference(NetFeatures::CSUM).difference(NetFeatures::GUEST_CSUM);
        let agreed = agree(bare, wanted);
        for feature in agreed.iter() {
            let name = feature.to_string();
            assert!(!["TSO", "UFO", "USO", "ECN"].iter().any(|part| name.contains(part)), "{name}");
        }
        let no_tso = wanted.difference(NetFeatures::HOST_TSO4).difference(NetFeatures::HOST_TSO6);
        assert!(!agree(no_tso, wanted).contains(NetFeatures::HOST_ECN));
        assert_eq!(agree(Features::from_bits_retain(u64::MAX), wanted), wanted);
    }

    #[test]
    fn without_merging_a_buffer_holds_the_mtu() {
        let mut options = VirtioUserOptions::new("/tmp/a.sock");
        options.mtu_bytes = Some(9000);
        let merging = options.features();
        assert_eq!(options.queue(merging, true).buffer_bytes, 2048);
        let alone = merging.difference(NetFeatures::MRG_RXBUF);
        assert_eq!(options.queue(alone, true).buffer_bytes, 9030);
        assert_eq!(options.queue(alone, false).buffer_bytes, 2048);
        options.mergeable = false;
        assert!(!options.features().contains(NetFeatures::GUEST_TSO4));
    }
}
