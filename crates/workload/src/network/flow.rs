use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message;

/// What is done with messages, by netperf's names (netperf manual, sections 5 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Datagrams one way.
    UdpStream,
    /// Bytes one way over connections that stay.
    TcpStream,
    /// A datagram there, one back, then the next.
    UdpRr,
    /// A message there, one back, over connections that stay.
    TcpRr,
    /// A connection for each message there and back.
    TcpCrr,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 5] =
        [Class::UdpStream, Class::TcpStream, Class::UdpRr, Class::TcpRr, Class::TcpCrr];

    /// Its name in metrics, and in words.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Class::UdpStream => ("udp_stream", "UDP stream"),
            Class::TcpStream => ("tcp_stream", "TCP stream"),
            Class::UdpRr => ("udp_rr", "UDP round trip"),
            Class::TcpRr => ("tcp_rr", "TCP round trip"),
            Class::TcpCrr => ("tcp_crr", "TCP connection and round trip"),
        }
    }

    /// Whether it is a stream: one end sends, the other counts.
    pub fn is_stream(self) -> bool {
        matches!(self, Class::UdpStream | Class::TcpStream)
    }

    /// Whether it runs over TCP.
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
    /// The end that is connected to.
    Far,
}

/// What both ends are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// What is done.
    pub class: Class,
    /// The end that sends. Used for streams only.
    pub sender: Side,
    /// Payload of each message, bytes. At least 16: its number is in it.
    pub message_bytes: usize,
    /// Connections, or pairs of ports, that the messages take in turn.
    pub connections: usize,
    /// Messages (or transactions) a second in all; without it as fast as it goes.
    pub per_second: Option<f64>,
    /// How long to send.
    pub duration: Duration,
    /// Whether each byte of the payload is checked. Costs the receiver time; without it only the message's number.
    pub verify: bool,
}

/// A flow that cannot be.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum FlowError {
    /// A message too short or too long.
    #[error("a message of {0} bytes: {least} to {most} are possible; change the message size",
        least = message::HEADER_BYTES, most = MOST_MESSAGE_BYTES)]
    MessageBytes(usize),
    /// Too few or too many connections.
    #[error("{0} connections: 1 to {MOST_CONNECTIONS} are possible; change their number")]
    Connections(usize),
    /// No such rate.
    #[error("{0} messages a second: give a number above 0 and up to 1e9")]
    Rate(f64),
    /// No such length.
    #[error("a flow of {0:?}: give more than nothing and at most a day")]
    Duration(Duration),
}

/// The largest UDP payload over IPv4 (RFC 768: 65,535 less both headers).
const MOST_MESSAGE_BYTES: usize = 65_507;
/// Below the ports that Linux gives out by itself (ip_local_port_range: 28,232).
const MOST_CONNECTIONS: usize = 20_000;
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Flow {
    /// Checks the limits of a flow. Each end checks for itself and does not trust the other.
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

    /// Which end sends: of a request and its response the near end, which asks.
    pub fn sending(&self) -> Side {
        if self.class.is_stream() { self.sender } else { Side::Near }
    }
}
