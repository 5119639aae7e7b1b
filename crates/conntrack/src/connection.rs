//! One connection.
use crate::controls::ControlPlace;
use crate::nat::Sides;
use crate::packet::{Packet, Payload};
use crate::sctp::Sctp;
use crate::tcp::{Known, Tcp};
use crate::{
    Direction, Helper, Mark, Request, State, Timeouts, Translate, Translation, Tuple, Verdict, protocol,
    sctp, tcp,
};

/// The part of a connection that its protocol has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Tcp(Tcp),
    Sctp(Sctp),
    Icmp,
    Udp,
    Other,
}

/// The judgement about a frame of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The connection is kept for this many milliseconds from now on; with `None` its deadline stays.
    Accepted {
        timeout: Option<u64>,
        is_assured: bool,
    },
    Invalid,
    /// The connection ends with this frame.
    Last,
    /// The connection has ended; the frame begins another one.
    Reopened,
}

/// A connection that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The tuples with which frames of each direction arrive.
    pub tuples: [Tuple; 2],
    pub zone: u16,
    /// The port whose frame began the connection.
    pub port: u16,
    pub protocol: Protocol,
    pub is_answered: bool,
    /// Frames of both directions were accepted: the connection is not replaced by a newer one.
    pub is_assured: bool,
    pub sides: Sides,
    /// The pool that its source port is from.
    pub pool: Option<u64>,
    pub mark: Mark,
    /// [`State::RELATED`] if a control channel has announced the connection.
    pub related: State,
    /// The helper that reads its frames.
    pub helper: Option<Helper>,
    /// Its place among the control channels, if there was room.
    pub control: Option<ControlPlace>,
    /// When the connection ends, in milliseconds.
    pub deadline: u64,
    /// The second in which the timer wheel looks at it.
    pub due: u64,
}

/// Rules that judge frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub tcp: tcp::TcpRules,
    pub timeouts: Timeouts,
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    duration.as_millis() as u64
}

impl Protocol {
    /// The state of a connection that a frame begins. `None` if the frame cannot begin one.
    pub fn begin(packet: &Packet<'_>, rules: &Rules) -> Option<Protocol> {
        match &packet.payload {
            Payload::Tcp(segment) => Tcp::begin(segment, rules.tcp).map(Protocol::Tcp),
            Payload::Sctp(chunks) => Sctp::begin(chunks).map(Protocol::Sctp),
            Payload::Icmp => packet.tuple.is_query().then_some(Protocol::Icmp),
            Payload::Error(_) => None,
            Payload::Other if packet.tuple.protocol == protocol::UDP => Some(Protocol::Udp),
            Payload::Other => Some(Protocol::Other),
        }
    }

    /// Judges a frame, and follows it.
    pub fn judge(
        &mut self,
        packet: &Packet<'_>,
        direction: Direction,
        known: Known,
        rules: &Rules,
    ) -> Judgement {
        let answers = known.is_answered || direction == Direction::Reply;
        let timeouts = &rules.timeouts;
        let kept =
            |timeout, is_assured| Judgement::Accepted { timeout: Some(milliseconds(timeout)), is_assured };
        match (self, &packet.payload) {
            (Protocol::Tcp(tcp), Payload::Tcp(segment)) => {
                match tcp.judge(segment, direction, known, rules.tcp) {
                    tcp::Judgement::Accepted { patience, is_assured } => {
                        let timeout = patience.map(|patience| milliseconds(timeouts.of_tcp(patience)));
                        Judgement::Accepted { timeout, is_assured }
                    }
                    tcp::Judgement::Ignored => Judgement::Accepted { timeout: None, is_assured: false },
                    tcp::Judgement::Invalid => Judgement::Invalid,
                    tcp::Judgement::Last => Judgement::Last,
                    tcp::Judgement::Reopened => Judgement::Reopened,
                }
            }
            (Protocol::Sctp(sctp), Payload::Sctp(chunks)) => match sctp.judge(chunks, direction) {
                sctp::Judgement::Accepted { state, is_assured } => kept(timeouts.of_sctp(state), is_assured),
                sctp::Judgement::Ignored => Judgement::Accepted { timeout: None, is_assured: false },
                sctp::Judgement::Invalid => Judgement::Invalid,
            },
            (Protocol::Icmp, _) => kept(timeouts.icmp, answers),
            (Protocol::Udp, _) if answers => kept(timeouts.udp_answered, true),
            (Protocol::Udp, _) => kept(timeouts.udp_unanswered, false),
            (Protocol::Other, _) => kept(timeouts.other, answers),
            // The tuple has the protocol's number, so the payload is of the same protocol.
            (Protocol::Tcp(_) | Protocol::Sctp(_), _) => Judgement::Invalid,
        }
    }
}

impl Connection {
    pub fn known(&self) -> Known {
        Known { is_answered: self.is_answered, is_assured: self.is_assured }
    }

    /// Whether its two directions do not lead to one table of several ([`crate::Shards`]).
    pub fn needs_whole_zone(&self) -> bool {
        self.helper.is_some() || self.tuples[0].reversed() != Some(self.tuples[1])
    }

    /// The tuple with which frames of a direction leave.
    pub fn leaving(&self, direction: Direction) -> Tuple {
        // Both tuples were made of each other, so the reverse exists.
        let arriving = self.tuples[direction.other() as usize];
        arriving.reversed().unwrap_or(self.tuples[direction as usize])
    }

    /// Writes mark and label, if asked, and describes the connection for a frame.
    pub fn verdict(&mut self, direction: Direction, state: State, request: &Request<'_>) -> Verdict {
        if let Some(written) = request.commit {
            self.mark = written.over(self.mark);
        }
        self.verdict_of(direction, state, request)
    }

    /// Describes the connection for a frame.
    pub fn verdict_of(&self, direction: Direction, state: State, request: &Request<'_>) -> Verdict {
        let mut state = state | State::TRACKED | self.related;
        let Sides { source, destination } = self.sides;
        let is_translated = request.translate != Translate::No && (source || destination);
        if is_translated {
            let (source, destination) = match direction {
                Direction::Original => (source, destination),
                Direction::Reply => (destination, source),
            };
            let bit = |is_set, bit| if is_set { bit } else { State::NONE };
            state = state
                | bit(source, State::SOURCE_TRANSLATED)
                | bit(destination, State::DESTINATION_TRANSLATED);
        }
        let translation = is_translated
            .then(|| Translation { from: self.tuples[direction as usize], to: self.leaving(direction) });
        let is_control = self.control.is_some() && !request.is_seen;
        Verdict {
            state,
            mark: self.mark,
            original: Some(self.tuples[0]),
            translation,
            refusal: None,
            is_control,
        }
    }
}
