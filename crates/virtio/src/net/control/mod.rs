//! The control virtqueue (VIRTIO 1.3 §5.1.6.5): its commands, and the receive filter that they set.
mod command;
mod filter;

pub use command::{Command, ControlError, FilterCommand, MAX_COMMAND_BYTES, ReceiveMode, VlanId};
pub use filter::{MAX_FILTER_ADDRESSES, ReceiveFilter};

/// The device's answer to a command, which is one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ack {
    /// Done.
    Ok = 0,
    /// Refused or malformed; nothing was changed.
    Error = 1,
}
