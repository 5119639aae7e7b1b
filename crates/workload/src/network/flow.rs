use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message;

/// The pattern of messages, with netperf's names (netperf manual, sections 5 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Datagrams in one direction.
    UdpStream,
    /// Bytes in one direction over lasting connections.
    TcpStream,
    /// A datagram to the far end and one back, then the next.
    UdpRr,
    /// A message to the far end and one back, over lasting connections.
    TcpRr,
    /// A new connection for each message and its answer.
    TcpCrr,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 5] =
        [Class::UdpStream, Class::TcpStream, Class::UdpRr, Class::TcpRr, Class::TcpCrr];

    /// The class's name in metrics, and in words.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Class::UdpStream => ("udp_stream", "UDP stream"),
            Class::TcpStream => ("tcp_stream", "TCP stream"),
            Class::UdpRr => ("udp_rr", "UDP round trip"),
            Class::TcpRr => ("tcp_rr", "TCP round trip"),
            Class::TcpCrr => ("tcp_crr", "TCP connection and round trip"),
        }
    }

    /// Whether the class is a stream: one end sends, the other counts.
    pub fn is_stream(self) -> bool {
        matches!(self, Class::UdpStream | Class::TcpStream)
    }

    /// Whether the class uses TCP.
    pub fn is_tcp(self) -> bool {
        matches!(self, Class::TcpStream | Class::TcpRr | Class::TcpCrr)
    }
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The end that connects.
    Near,
    /// The end that accepts connections.
    Far,
}

/// The parameters of a flow, which both ends know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The pattern of messages.
    pub class: Class,
    /// The end that sends. Only streams use this field.
    pub sender: Side,
    /// The payload of each message, in bytes. At least 16 bytes, because the payload contains the message's number.
    pub message_bytes: usize,
    /// The number of connections, or pairs of ports, over which the messages are sent in turn.
    pub connections: usize,
    /// The number of messages (or transactions) a second in all; `None` sends as fast as possible.
    pub per_second: Option<f64>,
    /// The time for which messages are sent.
    pub duration: Duration,
    /// Whether each byte of the payload is checked. The check takes time at the receiver; without it only the
    /// message's number is checked.
    pub verify: bool,
}

/// The error for an invalid flow.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum FlowError {
    /// A message too short or too long.
    #[error("a message of {0} bytes: {least} to {most} are possible; change the message size",
        least = message::HEADER_BYTES, most = MOST_MESSAGE_BYTES)]
    MessageBytes(usize),
    /// Too few or too many connections.
    #[error("{0} connections: 1 to {MOST_CONNECTIONS} are possible; change their number")]
    Connections(usize),
    /// The rate is invalid.
    #[error("{0} messages a second: give a number above 0 and up to 1e9")]
    Rate(f64),
    /// The duration is invalid.
    #[error("a flow of {0:?}: give more than nothing and at most a day")]
    Duration(Duration),
}

/// The largest UDP payload over IPv4 (RFC 768: 65,535 less both headers).
const MOST_MESSAGE_BYTES: usize = 65_507;
/// Below the ports that Linux gives out by itself (ip_local_port_range: 28,232).
const MOST_CONNECTIONS: usize = 20_000;
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Flow {
    /// Checks the limits of a flow. Each end checks the flow itself and does not rely on the other end.
    ///
    /// # Errors
    /// The message size in bytes, the number of connections, the rate in messages a second or the duration is out of
    /// its limits.
    pub fn check(&self) -> Result<(), FlowError> {
        if !(message::HEADER_BYTES..=MOST_MESSAGE_BYTES).contains(&self.message_bytes) {
            return Err(FlowError::MessageBytes(self.message_bytes));
        }
        if !(1..=MOST_CONNECTIONS).contains(&self.connections) {
            return Err(FlowError::Connections(self.connections));
        }
        if let Some(rate) = self.per_second
            && !(rate > 0.0 && rate <= 1e9)
        {
            return Err(FlowError::Rate(rate));
        }
        if self.duration.is_zero() || self.duration > LONGEST {
            return Err(FlowError::Duration(self.duration));
        }
        Ok(())
    }

    /// The end that sends: for requests and responses the near end, which sends the requests.
    pub fn sending(&self) -> Side {
        if self.class.is_stream() { self.sender } else { Side::Near }
    }
}
