//! The states of a TCP connection as a forwarder sees them, and its windows.
//!
//! The forwarder sees each segment once and does not know which of them arrive. It accepts a segment if the receiver can
//! have asked for its bytes and the sender can have received the bytes that it acknowledges (G. van Rooij, *Real
//! Stateful TCP Packet Filtering in IP Filter*, SANE 2000; RFC 9293 §3.4, RFC 7323 §2, RFC 5961 §3 to §5).
use crate::Direction;
use crate::bytes::STATE_BYTES;
use crate::segment::{Kind, Segment, before};
use crate::window::{End, Fit, Windows};

/// The state of a connection. Names as in RFC 9293 §3.3.2, for the connection and not for one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpState {
    /// A SYN was seen.
    SynSent,
    /// SYNs were seen in both directions, and no acknowledgement.
    SynSentBoth,
    /// A SYN that acknowledges a SYN was seen.
    SynReceived,
    /// The connection was accepted, or was found after its beginning.
    Established,
    /// A FIN was seen.
    FinWait,
    /// A segment behind a FIN was seen.
    CloseWait,
    /// FINs were seen in both directions.
    LastAck,
    /// A segment behind the last FIN was seen.
    TimeWait,
    /// The connection was reset.
    Closed,
}

/// The numbers of states in what is saved.
const STATES: [Option<TcpState>; 10] = [
    None,
    Some(TcpState::SynSent),
    Some(TcpState::SynSentBoth),
    Some(TcpState::SynReceived),
    Some(TcpState::Established),
    Some(TcpState::FinWait),
    Some(TcpState::CloseWait),
    Some(TcpState::LastAck),
    Some(TcpState::TimeWait),
    Some(TcpState::Closed),
];
/// A missing window scale in what is saved, and the largest one (RFC 7323 §2.3).
const NO_SCALE: u8 = 0xff;
const MAX_SCALE: u8 = 14;

/// The effect of a segment in a state.
enum Next {
    To(TcpState),
    /// A new connection between the same ends begins.
    Reopen,
    /// The connection here may be out of step with its ends. The segment passes and changes nothing yet.
    Ignore,
    Invalid,
}

fn next(state: TcpState, direction: Direction, kind: Kind) -> Next {
    use Direction::{Original, Reply};
    use Next::{Ignore, Invalid, Reopen, To};
    use TcpState::*;
    match (kind, direction, state) {
        (Kind::Rst, ..) => To(Closed),

        (Kind::Syn, Original, SynSent | SynSentBoth) => To(state),
        (Kind::Syn, Original, TimeWait | Closed) => Reopen,
        (Kind::Syn, Original, _) => Ignore,
        (Kind::Syn, Reply, SynSent | SynSentBoth) => To(SynSentBoth),
        (Kind::Syn, Reply, TimeWait) => Reopen, // the ends have exchanged their parts
        (Kind::Syn, Reply, _) => Invalid,

        (Kind::SynAck, Original, SynSentBoth | SynReceived) => To(SynReceived),
        (Kind::SynAck, Original, _) => Invalid,
        (Kind::SynAck, Reply, SynSent | SynSentBoth) => To(SynReceived),
        (Kind::SynAck, Reply, _) => Ignore,

        (Kind::Fin, _, SynSent | SynSentBoth) => Invalid,
        (Kind::Fin, _, SynReceived | Established) => To(FinWait),
        (Kind::Fin, _, FinWait | CloseWait | LastAck) => To(LastAck),
        (Kind::Fin, _, TimeWait | Closed) => To(state),

        (Kind::Ack, Original, SynSent | SynSentBoth) => Invalid,
        (Kind::Ack, Reply, SynSent | SynSentBoth) => Ignore, // perhaps a half-open connection (RFC 9293 §3.5.1)
        (Kind::Ack, Reply, SynReceived) => To(SynReceived),
        (Kind::Ack, _, SynReceived | Established) => To(Established),
        (Kind::Ack, _, FinWait | CloseWait) => To(CloseWait),
        (Kind::Ack, _, LastAck | TimeWait) => To(TimeWait),
        (Kind::Ack, _, Closed) => To(Closed),
    }
}

/// How strictly segments are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRules {
    /// Whether a connection may be found after its beginning. Its windows are then unknown and are not checked.
    pub loose: bool,
    /// Whether segments outside of the windows pass as well.
    pub liberal: bool,
}

impl Default for TcpRules {
    fn default() -> Self {
        Self { loose: true, liberal: false }
    }
}

/// The facts that a connection keeps in addition to its TCP state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// A frame in the direction of answers was seen before this one.
    pub is_answered: bool,
    pub is_assured: bool,
}

/// The judgement about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Accepted {
        patience: Option<Patience>,
        is_assured: bool,
    },
    /// The segment passes and changes nothing.
    Ignored,
    Invalid,
    /// The connection is at its end with this segment, which belongs to it.
    Last,
    /// The connection is over: the segment begins another one.
    Reopened,
}

/// How long the connection is kept after a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    pub state: TcpState,
    /// A segment came again and again, or the receiver's window is closed.
    pub is_stalled: bool,
    /// Bytes were sent and are not acknowledged yet.
    pub is_unacknowledged: bool,
}

/// The last segment that passed, or was ignored.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    kind: Option<Kind>,
    direction: Direction,
    sequence: u32,
    acknowledged: u32,
    end: u32,
    window: u32,
    /// Options of an ignored SYN, in case the two ends agree on the connection and this table does not.
    offered: End,
    /// An ignored SYN may cause an acknowledgement that acknowledges no FIN (RFC 5961 §4).
    expects_challenge: bool,
    repeated: u8,
}

/// The TCP part of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tcp {
    state: Option<TcpState>,
    windows: Windows,
    last: Last,
    opens_from_both: bool,
}

const STALLED_AFTER: u8 = 3;

impl Tcp {
    /// The connection that a segment begins, which [`Tcp::judge`] then judges. `None` if it cannot begin one.
    pub fn begin(segment: &Segment, rules: TcpRules) -> Option<Tcp> {
        let windows = match segment.kind? {
            Kind::Syn => Windows::of_syn(segment),
            Kind::Ack if rules.loose => Windows::of_found(segment),
            _ => return None,
        };
        Some(Tcp { state: None, windows, last: Last::default(), opens_from_both: false })
    }

    /// The state; `None` before the first segment was judged.
    pub fn state(&self) -> Option<TcpState> {
        self.state
    }

    /// The window scale that an end has offered (RFC 7323 §2).
    pub fn scale(&self, direction: Direction) -> Option<u8> {
        self.windows.end(direction).offered_scale()
    }

    /// What is saved: the state, and the window scales that the ends have offered.
    pub fn saved(&self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        let place = STATES.iter().position(|state| *state == self.state);
        bytes[0] = place.unwrap_or(0) as u8; // one of ten
        bytes[1] = self.scale(Direction::Original).unwrap_or(NO_SCALE);
        bytes[2] = self.scale(Direction::Reply).unwrap_or(NO_SCALE);
        bytes
    }

    /// The connection that was saved. Its windows are unknown.
    pub fn restored(bytes: &[u8; STATE_BYTES]) -> Tcp {
        let scale = |byte: u8| (byte != NO_SCALE).then(|| byte.min(MAX_SCALE));
        let state = STATES.get(usize::from(bytes[0])).copied().flatten();
        let windows = Windows::of_scales([scale(bytes[1]), scale(bytes[2])]);
        Tcp { state, windows, last: Last::default(), opens_from_both: false }
    }

    fn is_closing(&self) -> bool {
        use TcpState::{CloseWait, Closed, FinWait, LastAck, TimeWait};
        matches!(self.state, Some(FinWait | CloseWait | LastAck | TimeWait | Closed))
    }

    /// Judges a segment, and follows it.
    pub fn judge(
        &mut self,
        segment: &Segment,
        direction: Direction,
        known: Known,
        rules: TcpRules,
    ) -> Judgement {
        let Some(kind) = segment.kind else { return Judgement::Invalid };
        let (mut old, mut in_window) = (self.state, false);
        let after = match old {
            None if kind == Kind::Syn => Next::To(TcpState::SynSent),
            None => Next::To(TcpState::Established),
            Some(state) => next(state, direction, kind),
        };
        let new = match after {
            Next::Invalid => return Judgement::Invalid,
            Next::Reopen if self.may_reopen(direction) => return Judgement::Reopened,
            Next::Reopen | Next::Ignore => {
                if !self.answers_ignored_syn(segment, direction, kind) {
                    return self.ignore(segment, direction, kind);
                }
                self.catch_up(direction);
                old = Some(TcpState::SynSent);
                TcpState::SynReceived
            }
            Next::To(TcpState::TimeWait) if self.is_challenge(kind, direction) => {
                self.last.expects_challenge = false;
                return Judgement::Ignored;
            }
            Next::To(TcpState::SynSentBoth) => {
                self.opens_from_both = true;
                TcpState::SynSentBoth
            }
            Next::To(TcpState::SynReceived)
                if direction == Direction::Reply && kind == Kind::Ack && self.opens_from_both =>
            {
                TcpState::Established
            }
            Next::To(TcpState::Closed) if kind == Kind::Rst => match self.reset(segment, direction, known) {
                Reset::Invalid => return Judgement::Invalid,
                Reset::Certain => {
                    in_window = true;
                    TcpState::Closed
                }
                Reset::Possible => TcpState::Closed,
                // Another sequence number than the next: the receiver asks first (RFC 5961 §3.2).
                Reset::Doubtful => self.state.unwrap_or(TcpState::Closed),
            },
            Next::To(state) => state,
        };
        if !in_window {
            let opening = matches!(self.state, Some(TcpState::SynSent | TcpState::SynReceived));
            let unanswered = self.state == Some(TcpState::SynSent);
            match self.windows.fit(segment, direction, opening, unanswered, rules.liberal) {
                Fit::Invalid => {
                    self.note_refused_end(kind, direction, known);
                    return Judgement::Invalid;
                }
                Fit::Ignored => return Judgement::Ignored,
                Fit::Accepted(values) => {
                    if kind == Kind::Ack {
                        self.note_repetition(direction, values);
                    }
                }
                Fit::Unknown => {}
            }
        }
        self.accept(old, new, kind, direction, known)
    }

    fn accept(
        &mut self,
        old: Option<TcpState>,
        new: TcpState,
        kind: Kind,
        direction: Direction,
        known: Known,
    ) -> Judgement {
        use TcpState::{Established, FinWait, SynReceived, SynSent};
        (self.last.kind, self.last.direction, self.state) = (Some(kind), direction, Some(new));
        if old != Some(new) && new == FinWait {
            self.windows.end_mut(direction).has_closed_first = true;
        }
        let patience = Patience {
            state: if kind == Kind::Rst { TcpState::Closed } else { new },
            is_stalled: self.last.repeated >= STALLED_AFTER || self.last.window == 0,
            is_unacknowledged: self.windows.has_unacknowledged() || !known.is_answered && new == Established,
        };
        if !known.is_answered {
            if kind == Kind::Rst {
                return Judgement::Last;
            }
            // A SYN that is sent again does not keep the connection.
            if kind == Kind::Syn && old == Some(SynSent) {
                return Judgement::Accepted { patience: None, is_assured: false };
            }
        }
        let is_assured =
            known.is_answered && matches!(old, Some(SynReceived | Established)) && new == Established;
        Judgement::Accepted { patience: Some(patience), is_assured }
    }

    /// RFC 9293 §3.6.1: a SYN may open a connection again that was closed or reset.
    fn may_reopen(&self, direction: Direction) -> bool {
        self.windows.has_closed() || self.last.direction == direction && self.last.kind == Some(Kind::Rst)
    }

    /// Whether a segment accepts a SYN that was ignored here: the two ends then agree on the connection, and this table
    /// does not.
    fn answers_ignored_syn(&self, segment: &Segment, direction: Direction, kind: Kind) -> bool {
        kind == Kind::SynAck
            && self.last.kind == Some(Kind::Syn)
            && self.last.direction != direction
            && segment.acknowledgement == self.last.end
    }

    fn catch_up(&mut self, direction: Direction) {
        let mut sender = self.last.offered;
        sender.restart(self.last.end, self.last.window);
        *self.windows.end_mut(self.last.direction) = sender;
        self.windows.end_mut(direction).forget();
        self.last.expects_challenge = false;
    }

    fn ignore(&mut self, segment: &Segment, direction: Direction, kind: Kind) -> Judgement {
        let last = &mut self.last;
        (last.kind, last.direction, last.sequence) = (Some(kind), direction, segment.sequence);
        (last.end, last.window) = (segment.end, segment.window.into());
        if kind == Kind::Syn && direction == Direction::Original {
            last.offered = End::default();
            last.offered.take_options(&segment.options);
            last.expects_challenge = self.state == Some(TcpState::LastAck);
            self.opens_from_both = false;
        }
        if self.state == Some(TcpState::SynSent) && kind == Kind::Ack {
            last.acknowledged = segment.acknowledgement;
        }
        Judgement::Ignored
    }

    /// RFC 5961 §4: a SYN in a connection causes an acknowledgement, which acknowledges no FIN.
    fn is_challenge(&self, kind: Kind, direction: Direction) -> bool {
        self.state == Some(TcpState::LastAck)
            && kind == Kind::Ack
            && self.last.direction != direction
            && self.last.kind == Some(Kind::Syn)
            && self.last.expects_challenge
    }

    fn reset(&self, segment: &Segment, direction: Direction, known: Known) -> Reset {
        if self.is_closing() {
            return Reset::Certain; // both ends may have begun another connection
        }
        let (last, sequence) = (&self.last, segment.sequence);
        let established = self.state == Some(TcpState::Established) && known.is_assured;
        let mut reset = Reset::Possible;
        if let Some(acknowledged) = self.windows.end(direction.other()).acknowledged
            && last.kind != Some(Kind::Syn)
        {
            if sequence == 0 && !established {
                return Reset::Possible; // the answer to a SYN (RFC 9293 §3.5.2)
            }
            if before(sequence, acknowledged) {
                return Reset::Invalid;
            }
            let follows = last.kind == Some(Kind::Ack) && last.direction == direction && sequence == last.end;
            if !established || sequence == acknowledged || follows {
                return Reset::Possible;
            }
            reset = Reset::Doubtful;
        }
        let answers_ignored =
            known.is_answered && last.kind == Some(Kind::Syn) && last.direction != direction
                || !known.is_assured && last.kind == Some(Kind::Ack);
        let refuses_challenge = self.state == Some(TcpState::SynSent)
            && last.kind == Some(Kind::Ack)
            && last.direction == Direction::Reply
            && sequence == last.acknowledged;
        let acknowledges_last = segment.acknowledgement == last.end;
        match reset {
            Reset::Possible if answers_ignored && acknowledges_last || refuses_challenge => Reset::Certain,
            other => other,
        }
    }

    /// A FIN or RST outside of the windows: the next one in the other direction is judged with it.
    fn note_refused_end(&mut self, kind: Kind, direction: Direction, known: Known) {
        let last = &mut self.last;
        let ends = |kind| matches!(kind, Some(Kind::Fin | Kind::Rst));
        if known.is_assured && ends(Some(kind)) && !(last.direction != direction && ends(last.kind)) {
            (last.kind, last.direction) = (Some(kind), direction);
        }
    }

    fn note_repetition(&mut self, direction: Direction, values: crate::window::Values) {
        let last = &mut self.last;
        let same = last.direction == direction
            && (last.sequence, last.acknowledged, last.end, last.window)
                == (values.sequence, values.acknowledged, values.end, values.window);
        last.repeated = if same { last.repeated.saturating_add(1) } else { 0 };
        last.direction = direction;
        (last.sequence, last.acknowledged) = (values.sequence, values.acknowledged);
        (last.end, last.window) = (values.end, values.window);
    }
}

/// How certain it is that a reset ends the connection.
enum Reset {
    Invalid,
    /// The windows decide whether it ends the connection.
    Possible,
    /// The windows decide whether it passes; the state stays.
    Doubtful,
    /// The windows are not checked.
    Certain,
}
