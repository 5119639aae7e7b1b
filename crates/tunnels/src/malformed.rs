//! What is wrong with a frame from the network.

/// Why a frame to a tunnel is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The headers are longer than the packet, or than what is read of a frame.
    #[error("the headers are longer than the packet")]
    Short,
    /// A length contradicts another one.
    #[error("lengths contradict each other")]
    Length,
    /// The checksum of the IPv4 header is wrong.
    #[error("the checksum of the IPv4 header is wrong")]
    Checksum,
    /// The version or a flag is unknown.
    #[error("unknown version or flag")]
    Version,
    /// The payload is no Ethernet frame.
    #[error("the payload is no Ethernet frame")]
    Payload,
    /// An option is longer than the options.
    #[error("options are longer than their length")]
    Options,
    /// A critical option is unknown.
    #[error("an unknown option is critical")]
    Critical,
}
