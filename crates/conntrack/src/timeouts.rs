//! How long a connection is kept without frames.
use std::time::Duration;

use crate::sctp::SctpState;
use crate::tcp::{Patience, TcpState};

/// How long a connection is kept after its last frame. The default values are those of Linux
/// (`nf_conntrack-sysctl.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field names the state")]
pub struct Timeouts {
    pub tcp_syn_sent: Duration,
    pub tcp_syn_received: Duration,
    pub tcp_established: Duration,
    pub tcp_fin_wait: Duration,
    pub tcp_close_wait: Duration,
    pub tcp_last_ack: Duration,
    pub tcp_time_wait: Duration,
    pub tcp_closed: Duration,
    /// The limit while bytes are sent repeatedly, or while the receiver's window is closed.
    pub tcp_stalled: Duration,
    /// A limit while bytes are not acknowledged.
    pub tcp_unacknowledged: Duration,
    pub udp_unanswered: Duration,
    pub udp_answered: Duration,
    pub icmp: Duration,
    pub sctp_closed: Duration,
    pub sctp_opening: Duration,
    pub sctp_established: Duration,
    pub sctp_shutdown: Duration,
    pub sctp_heartbeat: Duration,
    pub other: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            tcp_syn_sent: seconds(120),
            tcp_syn_received: seconds(60),
            tcp_established: seconds(5 * 24 * 3600),
            tcp_fin_wait: seconds(120),
            tcp_close_wait: seconds(60),
            tcp_last_ack: seconds(30),
            tcp_time_wait: seconds(120),
            tcp_closed: seconds(10),
            tcp_stalled: seconds(300),
            tcp_unacknowledged: seconds(300),
            udp_unanswered: seconds(30),
            udp_answered: seconds(120),
            icmp: seconds(30),
            sctp_closed: seconds(10),
            sctp_opening: seconds(3),
            sctp_established: seconds(210),
            sctp_shutdown: seconds(3),
            sctp_heartbeat: seconds(30),
            other: seconds(600),
        }
    }
}

impl Timeouts {
    pub(crate) fn of_tcp(&self, patience: Patience) -> Duration {
        let mut timeout = match patience.state {
            TcpState::SynSent | TcpState::SynSentBoth => self.tcp_syn_sent,
            TcpState::SynReceived => self.tcp_syn_received,
            TcpState::Established => self.tcp_established,
            TcpState::FinWait => self.tcp_fin_wait,
            TcpState::CloseWait => self.tcp_close_wait,
            TcpState::LastAck => self.tcp_last_ack,
            TcpState::TimeWait => self.tcp_time_wait,
            TcpState::Closed => self.tcp_closed,
        };
        if patience.is_stalled {
            timeout = timeout.min(self.tcp_stalled);
        }
        if patience.is_unacknowledged {
            timeout = timeout.min(self.tcp_unacknowledged);
        }
        timeout
    }

    pub(crate) fn of_sctp(&self, state: SctpState) -> Duration {
        match state {
            SctpState::Closed => self.sctp_closed,
            SctpState::CookieWait | SctpState::CookieEchoed => self.sctp_opening,
            SctpState::Established => self.sctp_established,
            SctpState::ShutdownSent | SctpState::ShutdownReceived | SctpState::ShutdownAckSent => {
                self.sctp_shutdown
            }
            SctpState::HeartbeatSent => self.sctp_heartbeat,
        }
    }
}
