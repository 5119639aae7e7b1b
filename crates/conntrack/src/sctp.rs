//! The states of an SCTP association as a forwarder sees them (RFC 9260 §4, §8.4, §8.5).
use crate::Direction;
use crate::bytes::{STATE_BYTES, u16_at, u32_at};

/// The kinds of chunks that change the state (RFC 9260 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Init,
    InitAck,
    Heartbeat,
    HeartbeatAck,
    Abort,
    Shutdown,
    ShutdownAck,
    Error,
    CookieEcho,
    CookieAck,
    ShutdownComplete,
    Other,
}

impl Kind {
    fn of(number: u8) -> Kind {
        match number {
            0 => Kind::Data,
            1 => Kind::Init,
            2 => Kind::InitAck,
            4 => Kind::Heartbeat,
            5 => Kind::HeartbeatAck,
            6 => Kind::Abort,
            7 => Kind::Shutdown,
            8 => Kind::ShutdownAck,
            9 => Kind::Error,
            10 => Kind::CookieEcho,
            11 => Kind::CookieAck,
            14 => Kind::ShutdownComplete,
            _ => Kind::Other,
        }
    }

    /// Whether a packet with this chunk has no other chunk.
    fn is_alone(self) -> bool {
        matches!(self, Kind::Init | Kind::InitAck | Kind::ShutdownComplete)
    }

    fn is_first(self) -> bool {
        matches!(self, Kind::CookieEcho | Kind::CookieAck)
    }
}

/// One chunk.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    kind: Kind,
    /// The tag of an `Init` or `InitAck`; `None` if it is cut off.
    initiate_tag: Option<u32>,
    /// The flag T: the sender had no association.
    reflects_tag: bool,
}

/// The chunks of a packet, as far as they were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks<'a> {
    tag: u32,
    bytes: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// Reads a packet from its common header on. `None` if the header is cut off.
    pub fn read(bytes: &'a [u8]) -> Option<Chunks<'a>> {
        Some(Chunks { tag: u32_at(bytes, 4)?, bytes: bytes.get(12..)? })
    }

    fn iter(&self) -> impl Iterator<Item = Chunk> + 'a {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (header, length) = (rest.get(..4)?, usize::from(u16_at(rest, 2)?));
            let kind = Kind::of(header[0]);
            let chunk = Chunk { kind, initiate_tag: u32_at(rest, 4), reflects_tag: header[1] & 1 != 0 };
            // A length of zero would not end: `is_well_formed` refuses such packets first.
            rest = rest.get(length.next_multiple_of(4).max(4)..).unwrap_or_default();
            Some(chunk)
        })
    }

    /// Whether the chunks may stand together (RFC 9260 §6.10).
    fn is_well_formed(&self) -> bool {
        let (mut at, mut count, mut alone) = (0, 0, false);
        while let (Some(number), Some(length)) = (self.bytes.get(at), u16_at(self.bytes, at + 2)) {
            let kind = Kind::of(*number);
            alone |= kind.is_alone();
            if length == 0 || count > 0 && (alone || kind.is_first()) {
                return false;
            }
            at += usize::from(length).next_multiple_of(4);
            count += 1;
        }
        count > 0
    }

    fn has(&self, kinds: &[Kind]) -> bool {
        self.iter().any(|chunk| kinds.contains(&chunk.kind))
    }
}

/// The state of an association. Names as in RFC 9260 §4, for the association and not for one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SctpState {
    /// The association has ended, has no more than an INIT yet, or cannot begin so.
    Closed,
    /// The answer to an INIT was seen.
    CookieWait,
    /// A COOKIE ECHO was seen.
    CookieEchoed,
    /// The cookie was acknowledged.
    Established,
    /// The first end has sent a SHUTDOWN.
    ShutdownSent,
    /// The other end has sent a SHUTDOWN.
    ShutdownReceived,
    /// A SHUTDOWN ACK was seen.
    ShutdownAckSent,
    /// A HEARTBEAT was seen on a path that is not known.
    HeartbeatSent,
}

/// The numbers of states in what is saved.
const STATES: [Option<SctpState>; 9] = [
    None,
    Some(SctpState::Closed),
    Some(SctpState::CookieWait),
    Some(SctpState::CookieEchoed),
    Some(SctpState::Established),
    Some(SctpState::ShutdownSent),
    Some(SctpState::ShutdownReceived),
    Some(SctpState::ShutdownAckSent),
    Some(SctpState::HeartbeatSent),
];

/// The state after a chunk; `None` if the chunk is invalid in this state. As in Linux 6.12 and later: either end may send
/// the cookie and its answer, because both may have begun (RFC 9260 §5.2.1).
fn next(state: Option<SctpState>, direction: Direction, kind: Kind) -> Option<SctpState> {
    use Direction::{Original, Reply};
    use SctpState::*;
    let Some(state) = state else {
        return match kind {
            Kind::ShutdownAck => Some(ShutdownAckSent),
            Kind::Heartbeat => Some(HeartbeatSent),
            Kind::Data | Kind::Other => None,
            _ => Some(Closed),
        };
    };
    Some(match (kind, direction, state) {
        (Kind::Data | Kind::Other, ..) => state,
        (Kind::HeartbeatAck, Reply, HeartbeatSent) => Established,
        (Kind::Heartbeat | Kind::HeartbeatAck, _, HeartbeatSent) => HeartbeatSent,
        (Kind::Init, Original, HeartbeatSent) => CookieWait,
        (Kind::ShutdownAck, Original, HeartbeatSent) => ShutdownAckSent,
        (_, Original, HeartbeatSent) => Closed,
        (_, Reply, HeartbeatSent) => return None,
        (Kind::Abort, ..) => Closed,
        (Kind::Init, Original, ShutdownSent | ShutdownReceived) => Closed,
        (Kind::InitAck, Reply, Closed) => CookieWait,
        (Kind::Shutdown, Original, Established) => ShutdownSent,
        (Kind::Shutdown, Reply, Established) => ShutdownReceived,
        (Kind::ShutdownAck, _, ShutdownSent | ShutdownReceived) => ShutdownAckSent,
        (Kind::ShutdownComplete, _, ShutdownAckSent) => Closed,
        (Kind::Error, Reply, CookieEchoed) => Closed,
        (Kind::CookieEcho, _, CookieWait) => CookieEchoed,
        (Kind::CookieAck, _, CookieEchoed) => Established,
        _ => state,
    })
}

/// The judgement about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Accepted { state: SctpState, is_assured: bool },
    Ignored,
    Invalid,
}

/// The judgement of a heartbeat's tag.
enum Heartbeat {
    Fits,
    /// Another tag may be right.
    Announces,
    Strange,
}

/// The SCTP part of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sctp {
    state: Option<SctpState>,
    /// The verification tag that packets of each direction have; 0, which no end chooses (RFC 9260 §3.3.2), if it is not
    /// known.
    tags: [u32; 2],
    /// The direction of a heartbeat with another tag.
    announced_by: Option<Direction>,
    /// The directions in which an INIT was seen.
    has_initiated: [bool; 2],
}

impl Sctp {
    /// The association that a packet begins, which [`Sctp::judge`] then judges. `None` if it cannot begin one.
    pub fn begin(packet: &Chunks<'_>) -> Option<Sctp> {
        if !packet.is_well_formed() || packet.has(&[Kind::Abort, Kind::ShutdownComplete, Kind::CookieAck]) {
            return None;
        }
        let mut tags = [0; 2];
        for chunk in packet.iter() {
            next(None, Direction::Original, chunk.kind)?;
            match chunk.kind {
                Kind::Init if packet.tag != 0 => return None, // RFC 9260 §8.5.1 (A)
                Kind::Init => tags[1] = chunk.initiate_tag?,
                Kind::Heartbeat => tags[0] = packet.tag,
                Kind::ShutdownAck => tags[1] = packet.tag, // RFC 9260 §8.4 (5)
                _ => {}
            }
        }
        Some(Sctp { state: None, tags, announced_by: None, has_initiated: [false; 2] })
    }

    /// What is saved: the state, the tags, and the directions in which an INIT was seen.
    pub fn saved(&self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        let place = STATES.iter().position(|state| *state == self.state);
        bytes[0] = place.unwrap_or(0) as u8; // one of nine
        for (at, tag) in self.tags.iter().enumerate() {
            let field = &mut bytes[1 + 5 * at..][..5];
            field[0] = (*tag != 0).into();
            field[1..].copy_from_slice(&tag.to_le_bytes());
        }
        bytes[11] = self.has_initiated[0].into();
        bytes[12] = self.has_initiated[1].into();
        bytes
    }

    /// The association that was saved.
    pub fn restored(bytes: &[u8; STATE_BYTES]) -> Sctp {
        let tag = |at: usize| {
            let [is_known, a, b, c, d] = [0, 1, 2, 3, 4].map(|byte| bytes[at + byte]);
            if is_known == 0 { 0 } else { u32::from_le_bytes([a, b, c, d]) }
        };
        Sctp {
            state: STATES.get(usize::from(bytes[0])).copied().flatten(),
            tags: [tag(1), tag(6)],
            announced_by: None,
            has_initiated: [bytes[11] != 0, bytes[12] != 0],
        }
    }

    /// The state; `None` before the first chunk was judged.
    pub fn state(&self) -> Option<SctpState> {
        self.state
    }

    /// RFC 9260 §8.5: whether the verification tag fits a chunk.
    fn tag_fits(&self, packet: &Chunks<'_>, chunk: &Chunk, direction: Direction) -> bool {
        let own = self.tags[direction as usize] == packet.tag;
        let other = self.tags[direction.other() as usize] == packet.tag;
        match chunk.kind {
            Kind::Init => packet.tag == 0,
            Kind::Abort | Kind::ShutdownComplete => {
                if chunk.reflects_tag {
                    other
                } else {
                    own
                }
            }
            Kind::CookieEcho => own,
            _ => true,
        }
    }

    /// The tag of a heartbeat. An end that began again without this forwarder has another tag: a heartbeat announces it,
    /// and the answer confirms it.
    fn heartbeat(
        &mut self,
        packet: &Chunks<'_>,
        kind: Kind,
        direction: Direction,
        is_ignored: bool,
    ) -> Heartbeat {
        let (own, other) = (direction as usize, direction.other() as usize);
        if self.tags[own] == 0 {
            self.tags[own] = packet.tag;
            return Heartbeat::Fits;
        }
        if self.tags[own] == packet.tag {
            self.announced_by = None;
            return Heartbeat::Fits;
        }
        if packet.has(&[Kind::Data]) || is_ignored {
            return Heartbeat::Strange;
        }
        if kind == Kind::Heartbeat {
            self.announced_by = Some(direction);
            return Heartbeat::Announces;
        }
        if self.announced_by != Some(direction.other()) {
            return Heartbeat::Strange;
        }
        self.announced_by = None;
        (self.tags[own], self.tags[other]) = (packet.tag, 0);
        Heartbeat::Fits
    }

    /// Follows the tag of an INIT or of its answer. Returns false for an answer without an INIT, or a late one: after
    /// both ends have sent an INIT (RFC 9260 §5.2.1), the tags stay.
    fn initiate(&mut self, kind: Kind, direction: Direction, tag: u32) -> bool {
        let (own, other) = (direction as usize, direction.other() as usize);
        let known = self.tags[other];
        if kind == Kind::Init {
            // A stale INIT, or one that is sent again, has the known tag and begins no handshake.
            if self.state.is_none() || known != tag {
                self.has_initiated[other] &= !self.has_initiated[own];
                self.has_initiated[own] = true;
            }
        } else {
            let is_late = !self.has_initiated[other] && known != 0 && known != tag;
            let collides = self.has_initiated == [true; 2] && known != tag;
            if is_late || collides {
                return false;
            }
        }
        self.tags[other] = tag;
        true
    }

    /// Judges a packet, and follows it.
    pub fn judge(&mut self, packet: &Chunks<'_>, direction: Direction) -> Judgement {
        const OWN_RULE: [Kind; 7] = [
            Kind::Init,
            Kind::ShutdownComplete,
            Kind::CookieEcho,
            Kind::Abort,
            Kind::ShutdownAck,
            Kind::Heartbeat,
            Kind::HeartbeatAck,
        ];
        let expected = self.tags[direction as usize];
        if !packet.is_well_formed() || !packet.has(&OWN_RULE) && packet.tag != expected {
            return Judgement::Invalid;
        }
        let (mut is_assured, mut is_ignored) = (false, false);
        for chunk in packet.iter() {
            if matches!(chunk.kind, Kind::Heartbeat | Kind::HeartbeatAck) {
                match self.heartbeat(packet, chunk.kind, direction, is_ignored) {
                    Heartbeat::Fits => {}
                    Heartbeat::Strange => return Judgement::Invalid,
                    Heartbeat::Announces => {
                        is_ignored = true;
                        continue;
                    }
                }
            }
            if !self.tag_fits(packet, &chunk, direction) {
                return Judgement::Invalid;
            }
            if chunk.kind == Kind::CookieAck {
                self.has_initiated = [false; 2];
            }
            let Some(new) = next(self.state, direction, chunk.kind) else { return Judgement::Invalid };
            match chunk.kind {
                Kind::Init | Kind::InitAck => {
                    let Some(tag) = chunk.initiate_tag else { return Judgement::Invalid };
                    if !self.initiate(chunk.kind, direction, tag) {
                        return Judgement::Invalid;
                    }
                }
                _ => {}
            }
            let old = self.state.replace(new);
            is_assured |= new == SctpState::Established && old != Some(new);
            // An INIT that is sent again does not keep the connection.
            is_ignored |= chunk.kind == Kind::Init && new == SctpState::Closed && old == Some(new);
        }
        match self.state {
            Some(state) if !is_ignored => Judgement::Accepted { state, is_assured },
            _ => Judgement::Ignored,
        }
    }
}
