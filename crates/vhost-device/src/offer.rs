//! The offer to front-ends: the engine's part, and the device's.
//!
//! For every device, the engine offers the device feature VHOST_LOG_ALL and these protocol features (vhost-user text,
//! "Protocol features"):
//!
//! | feature | offered |
//! |---|---|
//! | MQ, REPLY_ACK, CONFIGURE_MEM_SLOTS, STATUS, RESET_DEVICE | yes |
//! | LOG_SHMFD, INFLIGHT_SHMFD, BACKEND_REQ | yes |
//! | RARP, MTU, CONFIG, CRYPTO_SESSION | if the device offers it |
//! | PAGEFAULT | no: postcopy needs userfaultfd handlers around every access to memory |
//! | DEVICE_STATE | no: devices have no state to transfer except the positions of rings |
//! | HOST_NOTIFIER | no: there is no doorbell page |
//! | INBAND_NOTIFICATIONS | no: workers notify, and they have no access to the session |
//! | BACKEND_SEND_FD | no: no request of this back-end carries a descriptor |
use vhost_user::bits::ProtocolFeatures;
use vhost_user::session::backend::{Offer, OfferError};
use virtio::Features;

use crate::device::Device;

/// Protocol features that the engine serves for each device.
const PROTOCOL: ProtocolFeatures = ProtocolFeatures::MQ
    .union(ProtocolFeatures::REPLY_ACK)
    .union(ProtocolFeatures::CONFIGURE_MEM_SLOTS)
    .union(ProtocolFeatures::STATUS)
    .union(ProtocolFeatures::RESET_DEVICE)
    .union(ProtocolFeatures::LOG_SHMFD)
    .union(ProtocolFeatures::INFLIGHT_SHMFD)
    .union(ProtocolFeatures::BACKEND_REQ);

/// The complete offer, for a session.
///
/// # Errors
/// The device has more rings than the protocol can number.
pub(crate) fn of<D: Device>(device: &D) -> Result<Offer, OfferError> {
    let features = device.features().union(Features::VHOST_LOG_ALL);
    let protocol = PROTOCOL | device.protocol_features();
    let offer = Offer::new(features, protocol, device.queue_count())?;
    Ok(offer.report_queues(device.reported_queues()))
}
