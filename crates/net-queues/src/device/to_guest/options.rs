//! What a receiveq's driver has agreed to.
use virtio::net::{Accepts, HeaderLayout};

/// What was agreed on with the driver that receives.
#[derive(Clone, Copy, Debug)]
pub struct ToGuestOptions {
    /// The net header's layout.
    pub layout: HeaderLayout,
    /// Offloads that the driver takes.
    pub accepts: Accepts,
    /// A frame may be spread over several chains (MRG_RXBUF).
    pub mergeable: bool,
    /// Longest frame in bytes; frames that the driver takes as they are are not held to it.
    pub max_frame_bytes: Option<u32>,
}
