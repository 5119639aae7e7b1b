//! The negotiated features that change how a ring works.

use virtio::Features;

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
    /// The device is behind a bus, so the driver's barriers must reach it.
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

    /// The features that this crate supports.
    pub fn supported() -> Features {
        [
            Features::VERSION_1,
            Features::RING_PACKED,
            Features::RING_EVENT_IDX,
            Features::RING_INDIRECT_DESC,
            Features::IN_ORDER,
            Features::ORDER_PLATFORM,
            Features::NOTIFICATION_DATA,
            Features::RING_RESET,
        ]
        .into_iter()
        .collect()
    }
}

impl From<Features> for RingFeatures {
    fn from(negotiated: Features) -> Self {
        let packed = negotiated.contains(Features::RING_PACKED);
        RingFeatures {
            layout: if packed { RingLayout::Packed } else { RingLayout::Split },
            event_idx: negotiated.contains(Features::RING_EVENT_IDX),
            indirect: negotiated.contains(Features::RING_INDIRECT_DESC),
            in_order: negotiated.contains(Features::IN_ORDER),
            order_platform: negotiated.contains(Features::ORDER_PLATFORM),
            notification_data: negotiated.contains(Features::NOTIFICATION_DATA),
            ring_reset: negotiated.contains(Features::RING_RESET),
        }
    }
}

/// The features as a type, so that a queue's code decides nothing for each descriptor.
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
