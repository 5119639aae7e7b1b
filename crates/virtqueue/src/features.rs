//! The negotiated features that change how a ring works.

use virtio::{Feature, Features};

use crate::RingLayout;

/// The ring features of a queue, as negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingFeatures {
    /// Split or packed.
    pub layout: RingLayout,
    /// Notifications are suppressed by position.
    pub event_idx: bool,
    /// Chains may lie in tables of their own.
    pub indirect: bool,
    /// Buffers are used in order.
    pub in_order: bool,
    /// The device is behind a bus; the driver's barriers must reach it.
    pub order_platform: bool,
    /// Kicks carry the driver's position.
    pub notification_data: bool,
    /// The queue can be reset by itself.
    pub ring_reset: bool,
}

impl RingFeatures {
    /// A layout without any feature.
    pub const fn plain(layout: RingLayout) -> Self {
        RingFeatures {
            layout,
            event_idx: false,
            indirect: false,
            in_order: false,
            order_platform: false,
            notification_data: false,
            ring_reset: false,
        }
    }

    /// What this crate can do, to be offered or accepted.
    pub fn supported() -> Features {
        [
            Feature::VERSION_1,
            Feature::RING_PACKED,
            Feature::RING_EVENT_IDX,
            Feature::RING_INDIRECT_DESC,
            Feature::IN_ORDER,
            Feature::ORDER_PLATFORM,
            Feature::NOTIFICATION_DATA,
            Feature::RING_RESET,
        ]
        .into_iter()
        .collect()
    }
}

impl From<Features> for RingFeatures {
    fn from(negotiated: Features) -> Self {
        let packed = negotiated.has(Feature::RING_PACKED);
        RingFeatures {
            layout: if packed { RingLayout::Packed } else { RingLayout::Split },
            event_idx: negotiated.has(Feature::RING_EVENT_IDX),
            indirect: negotiated.has(Feature::RING_INDIRECT_DESC),
            in_order: negotiated.has(Feature::IN_ORDER),
            order_platform: negotiated.has(Feature::ORDER_PLATFORM),
            notification_data: negotiated.has(Feature::NOTIFICATION_DATA),
            ring_reset: negotiated.has(Feature::RING_RESET),
        }
    }
}

/// The features as a type, so that a queue's code has nothing to decide per descriptor.
pub trait FeatureSet: Send + 'static {
    /// `VIRTIO_F_EVENT_IDX`.
    const EVENT_IDX: bool;
    /// `VIRTIO_F_INDIRECT_DESC`.
    const INDIRECT: bool;
    /// `VIRTIO_F_IN_ORDER`.
    const IN_ORDER: bool;
}

/// One combination of features.
#[derive(Debug)]
pub struct With<const EVENT_IDX: bool, const INDIRECT: bool, const IN_ORDER: bool>;

impl<const EVENT_IDX: bool, const INDIRECT: bool, const IN_ORDER: bool> FeatureSet
    for With<EVENT_IDX, INDIRECT, IN_ORDER>
{
    const EVENT_IDX: bool = EVENT_IDX;
    const INDIRECT: bool = INDIRECT;
    const IN_ORDER: bool = IN_ORDER;
}
