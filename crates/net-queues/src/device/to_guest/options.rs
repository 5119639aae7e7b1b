//! The options that were negotiated with a receiveq's driver.
use virtio::net::{Accepts, HeaderLayout};

/// The options that were negotiated with the receiving driver.
#[derive(Clone, Copy, Debug)]
pub struct ToGuestOptions {
    /// The net header's layout.
    pub layout: HeaderLayout,
    /// Offloads that the driver accepts.
    pub accepts: Accepts,
    /// A frame may be spread over several chains (MRG_RXBUF).
    pub mergeable: bool,
    /// The longest frame in bytes. Frames that the driver accepts unsegmented are not limited.
    pub max_frame_bytes: Option<u32>,
}
