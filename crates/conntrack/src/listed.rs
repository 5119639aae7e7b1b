//! Connections as they are listed.
use std::time::Duration;

use crate::connection::{Connection, Protocol};
use crate::sctp::SctpState;
use crate::tcp::TcpState;
use crate::{Direction, Helper, Mark, Tuple};

/// A connection in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The zone.
    pub zone: u16,
    /// The port whose frame began the connection.
    pub port: u16,
    /// The tuple with which frames of the first direction arrive.
    pub original: Tuple,
    /// The tuple with which answers arrive. With a translation it is not the reverse of `original`.
    pub reply: Tuple,
    /// Mark and label.
    pub mark: Mark,
    /// How long the connection is kept without another frame.
    pub timeout: Duration,
    /// The state of a protocol with states, by the name that Open vSwitch has for it.
    pub state: Option<&'static str>,
    /// The window scales of TCP that the ends have offered, as in `original` and in `reply`.
    pub window_scales: [Option<u8>; 2],
    /// The helper that reads the frames of this control channel, by the name that Open vSwitch has for it.
    pub helper: Option<&'static str>,
}

/// The place from which a list goes on, of [`crate::Shards::list`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListFrom(pub u64);

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The connections.
    pub connections: Vec<Listed>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<ListFrom>,
}

fn of_tcp(state: Option<TcpState>) -> &'static str {
    match state {
        None => "CLOSED",
        Some(TcpState::SynSent | TcpState::SynSentBoth) => "SYN_SENT",
        Some(TcpState::SynReceived) => "SYN_RECV",
        Some(TcpState::Established) => "ESTABLISHED",
        Some(TcpState::FinWait) => "FIN_WAIT_1",
        Some(TcpState::CloseWait) => "CLOSE_WAIT",
        Some(TcpState::LastAck) => "LAST_ACK",
        Some(TcpState::TimeWait) => "TIME_WAIT",
        Some(TcpState::Closed) => "CLOSING",
    }
}

fn of_sctp(state: SctpState) -> &'static str {
    match state {
        SctpState::Closed => "CLOSED",
        SctpState::CookieWait => "COOKIE_WAIT",
        SctpState::CookieEchoed => "COOKIE_ECHOED",
        SctpState::Established => "ESTABLISHED",
        SctpState::ShutdownSent => "SHUTDOWN_SENT",
        SctpState::ShutdownReceived => "SHUTDOWN_RECD",
        SctpState::ShutdownAckSent => "SHUTDOWN_ACK_SENT",
        SctpState::HeartbeatSent => "HEARTBEAT_SENT",
    }
}

impl Listed {
    pub(crate) fn of(connection: &Connection, now: Duration) -> Listed {
        let Connection { tuples: [original, reply], zone, port, protocol, mark, deadline, helper, .. } =
            connection;
        let (state, window_scales) = match protocol {
            Protocol::Tcp(tcp) => {
                let scales = [Direction::Original, Direction::Reply].map(|direction| tcp.scale(direction));
                (Some(of_tcp(tcp.state())), scales)
            }
            Protocol::Sctp(sctp) => (Some(sctp.state().map_or("CLOSED", of_sctp)), [None; 2]),
            Protocol::Icmp | Protocol::Udp | Protocol::Other => (None, [None; 2]),
        };
        Listed {
            zone: *zone,
            port: *port,
            original: *original,
            reply: *reply,
            mark: *mark,
            timeout: Duration::from_millis(*deadline).saturating_sub(now),
            state,
            window_scales,
            helper: helper.map(|helper| match helper {
                Helper::Ftp => "ftp",
                Helper::Tftp => "tftp",
            }),
        }
    }
}
