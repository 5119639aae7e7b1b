//! The offer of a back-end.
use thiserror::Error;

use crate::bits::ProtocolFeatures;
use virtio::Features;

/// The answers to GET_FEATURES, GET_PROTOCOL_FEATURES, GET_QUEUE_NUM and GET_MAX_MEM_SLOTS. They are checked: the
/// session handles all features, and the set of features is consistent.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    features: Features,
    protocol_features: ProtocolFeatures,
    queue_count: u16,
    reported_queues: u64,
    max_mem_slots: u16,
}

/// Why an offer is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OfferError {
    /// Protocol features that no session handles.
    #[error("protocol features {0:?} are not handled; leave them out (codec::table says why)")]
    NotHandled(ProtocolFeatures),
    /// A protocol feature without one that it needs.
    #[error("protocol feature {0:?} needs {1:?}; offer both or neither")]
    Needs(ProtocolFeatures, ProtocolFeatures),
    /// A queue count that is 0 or too high for the protocol's eight-bit indices.
    #[error("{0} queues cannot be offered; offer 1 to 256")]
    QueueCount(u16),
}

impl Offer {
    /// The most queues that kick, call and err messages can name.
    pub const MAX_QUEUES: u16 = 256;
    /// The default limit of memory regions.
    pub const DEFAULT_MEM_SLOTS: u16 = 509;

    /// Offers these features for this many queues. With any protocol feature, VHOST_USER_F_PROTOCOL_FEATURES is
    /// offered too.
    ///
    /// # Errors
    /// A protocol feature is not handled or lacks one that it needs, or `queue_count` is not 1 to
    /// [`Offer::MAX_QUEUES`].
    pub fn new(
        features: Features,
        protocol_features: ProtocolFeatures,
        queue_count: u16,
    ) -> Result<Self, OfferError> {
        let not_handled = protocol_features.difference(ProtocolFeatures::HANDLED);
        if !not_handled.is_empty() {
            return Err(OfferError::NotHandled(not_handled));
        }
        if let Some((feature, needs)) = protocol_features.unmet_need() {
            return Err(OfferError::Needs(feature, needs));
        }
        if !(1..=Self::MAX_QUEUES).contains(&queue_count) {
            return Err(OfferError::QueueCount(queue_count));
        }
        let features = match protocol_features.is_empty() {
            true => features,
            false => features | Features::VHOST_PROTOCOL_FEATURES,
        };
        let reported_queues = queue_count.into();
        Ok(Self {
            features,
            protocol_features,
            queue_count,
            reported_queues,
            max_mem_slots: Self::DEFAULT_MEM_SLOTS,
        })
    }

    /// Answers GET_QUEUE_NUM with this number. For a network device QEMU and DPDK expect queue pairs in this number,
    /// other front-ends queues.
    pub fn report_queues(mut self, count: u16) -> Self {
        self.reported_queues = count.into();
        self
    }

    /// Accepts at most this many memory regions (GET_MAX_MEM_SLOTS).
    pub fn limit_mem_slots(mut self, slots: u16) -> Self {
        self.max_mem_slots = slots;
        self
    }

    /// Device features.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Protocol features.
    pub fn protocol_features(&self) -> ProtocolFeatures {
        self.protocol_features
    }

    /// The number of rings of the session.
    pub fn queue_count(&self) -> u16 {
        self.queue_count
    }

    pub(super) fn reported_queues(&self) -> u64 {
        self.reported_queues
    }

    pub(super) fn max_mem_slots(&self) -> u16 {
        self.max_mem_slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_kept_is_offered() {
        let offer = |protocol, queues| Offer::new(Features::VERSION_1, protocol, queues);
        assert_eq!(
            offer(ProtocolFeatures::XEN_MMAP, 2).unwrap_err(),
            OfferError::NotHandled(ProtocolFeatures::XEN_MMAP)
        );
        assert!(matches!(offer(ProtocolFeatures::INBAND_NOTIFICATIONS, 2), Err(OfferError::Needs(..))));
        assert_eq!(offer(ProtocolFeatures::MQ, 0).unwrap_err(), OfferError::QueueCount(0));
        assert_eq!(offer(ProtocolFeatures::MQ, 257).unwrap_err(), OfferError::QueueCount(257));
        let whole = offer(ProtocolFeatures::HANDLED, 256).unwrap();
        assert!(whole.features().contains(Features::VHOST_PROTOCOL_FEATURES));
        let bare = offer(ProtocolFeatures::empty(), 2).unwrap();
        assert!(!bare.features().contains(Features::VHOST_PROTOCOL_FEATURES));
    }
}
