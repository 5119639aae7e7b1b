//! Bidirectional Forwarding Detection over a tunnel (RFC 5880, RFC 5881): asynchronous mode, without authentication and
//! echoes, with the frames that Open vSwitch sends.
//!
//! A [`Session`] does no I/O and reads no clock: times are those since any moment.
use std::collections::BTreeMap;
use std::time::Duration;

use flow::protocol;

use crate::{Mac, Sum};

/// The bytes of a control packet without authentication (RFC 5880 §4.1).
const CONTROL_BYTES: usize = 24;
/// The bytes of a frame with a control packet: Ethernet, IPv4, UDP, and the packet.
pub const FRAME_BYTES: usize = 14 + 20 + 8 + CONTROL_BYTES;
/// The UDP port of control packets (RFC 5881 §4).
const PORT: u16 = 3784;
/// The first UDP port from which they may be sent (RFC 5881 §4).
const SOURCE_PORT: u16 = 49_152;
/// The hop limit, which received packets must have too (RFC 5881 §5).
const HOPS: u8 = 255;
/// The addresses of Open vSwitch's control packets, if the column `bfd` names no others.
const DESTINATION: Mac = [0, 0x23, 0x20, 0, 0, 1];
const ENDS: [[u8; 4]; 2] = [[169, 254, 1, 1], [169, 254, 1, 0]];
/// The type of service of Open vSwitch's control packets: internetwork control (RFC 791).
const TOS: u8 = 0xc0;
/// The shortest interval between packets while a session is not up (RFC 5880 §6.8.3), in microseconds.
const SLOW_US: u32 = 1_000_000;

/// The state of a session (RFC 5880 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The session is held down by an administrator.
    AdminDown,
    /// The session is down.
    Down,
    /// The other end is heard, and does not hear this end yet.
    Init,
    /// Both ends hear each other.
    Up,
}

impl State {
    const ALL: [State; 4] = [State::AdminDown, State::Down, State::Init, State::Up];

    /// The word in Open vSwitch's column `bfd_status`.
    pub fn name(self) -> &'static str {
        ["admin_down", "down", "init", "up"][self as usize]
    }
}

/// The reasons for the last change of state (RFC 5880 §4.1), in the words of Open vSwitch.
const DIAGNOSTICS: [&str; 9] = [
    "No Diagnostic",
    "Control Detection Time Expired",
    "Echo Function Failed",
    "Neighbor Signaled Session Down",
    "Forwarding Plane Reset",
    "Path Down",
    "Concatenated Path Down",
    "Administratively Down",
    "Reverse Concatenated Path Down",
];
const EXPIRED: u8 = 1;
const SIGNALED: u8 = 3;
/// Diagnostics with which the other end does not forward, although its session is up.
const PATHS_DOWN: [u8; 3] = [5, 6, 8];

fn diagnostic(number: u8) -> &'static str {
    DIAGNOSTICS.get(usize::from(number)).unwrap_or(&"Unknown Diagnostic")
}

/// Whether a frame with these headers may be a control packet. `field` is the place of a checksum of two bytes that is still
/// to be written: it may become anything.
pub fn may_be_control(headers: &[u8], field: Option<usize>) -> bool {
    let is_open = |at: usize| field.is_some_and(|field| (field..field + 2).contains(&at));
    let ([kind, of_kind], [port, of_port]) = (protocol::IPV4.to_be_bytes(), PORT.to_be_bytes());
    let known =
        [(12, kind), (13, of_kind), (14, 0x45), (22, HOPS), (23, protocol::UDP), (36, port), (37, of_port)];
    known.iter().all(|(at, byte)| headers.get(*at).is_some_and(|is| is == byte || is_open(*at)))
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The state of the sender's session.
    pub state: State,
    /// The number of the reason for the sender's last change of state.
    pub diagnostic: u8,
    /// Whether the sender asks for an answer at once.
    pub polls: bool,
    /// Whether this is such an answer.
    pub is_final: bool,
    /// The number of intervals without a packet after which the sender is gone.
    pub multiplier: u8,
    /// The sender's number of the session, and the receiver's; 0 stands for an unknown one.
    pub discriminators: [u32; 2],
    /// The shortest interval at which the sender would like to send, in microseconds.
    pub min_tx_us: u32,
    /// The shortest interval at which the sender can receive, in microseconds; 0 asks for no packets.
    pub min_rx_us: u32,
}

impl Control {
    /// A received packet; `None` if it must be discarded (RFC 5880 §6.8.6).
    fn read(bytes: &[u8; CONTROL_BYTES]) -> Option<Self> {
        let [first, flags, multiplier, length, ..] = *bytes;
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let (state, discriminators) = (State::ALL[usize::from(flags >> 6)], [word(4), word(8)]);
        // Authentication, or many receivers.
        let is_foreign = flags & 0x05 != 0;
        let is_first = matches!(state, State::AdminDown | State::Down);
        let is_valid =
            first >> 5 == 1 && usize::from(length) == CONTROL_BYTES && multiplier > 0 && !is_foreign;
        (is_valid && discriminators[0] != 0 && (discriminators[1] != 0 || is_first)).then_some(Control {
            state,
            diagnostic: first & 0x1f,
            polls: flags & 0x20 != 0,
            is_final: flags & 0x10 != 0,
            multiplier,
            discriminators,
            min_tx_us: word(12),
            min_rx_us: word(16),
        })
    }

    fn write(&self, into: &mut [u8; CONTROL_BYTES]) {
        into[0] = 1 << 5 | self.diagnostic;
        into[1] = (self.state as u8) << 6 | u8::from(self.polls) << 5 | u8::from(self.is_final) << 4;
        (into[2], into[3]) = (self.multiplier, CONTROL_BYTES as u8);
        let [own, other] = self.discriminators;
        for (field, word) in into[4..20].chunks_exact_mut(4).zip([own, other, self.min_tx_us, self.min_rx_us])
        {
            field.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// The packet in a frame of a tunnel; `None` if the frame is none of BFD, or must be discarded.
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let headers: &[u8; FRAME_BYTES] = frame.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
        let is_udp = word(12) == protocol::IPV4 && headers[14] == 0x45 && headers[23] == protocol::UDP;
        let is_whole = word(20) & 0x3fff == 0 && word(38) >= 8 + CONTROL_BYTES as u16;
        if !is_udp || !is_whole || headers[22] != HOPS || word(36) != PORT {
            return None;
        }
        Control::read(headers.last_chunk()?)
    }

    /// The frame of a tunnel with this packet.
    pub fn frame(&self, source: Mac) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        frame[..6].copy_from_slice(&DESTINATION);
        frame[6..12].copy_from_slice(&source);
        frame[12..14].copy_from_slice(&protocol::IPV4.to_be_bytes());
        let packet = &mut frame[14..34];
        (packet[0], packet[1], packet[8], packet[9]) = (0x45, TOS, HOPS, protocol::UDP);
        packet[2..4].copy_from_slice(&(FRAME_BYTES as u16 - 14).to_be_bytes());
        packet[12..16].copy_from_slice(&ENDS[0]);
        packet[16..].copy_from_slice(&ENDS[1]);
        let mut sum = Sum::default();
        sum.add(packet);
        packet[10..12].copy_from_slice(&(!sum.folded()).to_be_bytes());
        frame[34..36].copy_from_slice(&SOURCE_PORT.to_be_bytes());
        frame[36..38].copy_from_slice(&PORT.to_be_bytes());
        frame[38..40].copy_from_slice(&(8 + CONTROL_BYTES as u16).to_be_bytes());
        if let Some(control) = frame.last_chunk_mut() {
            self.write(control);
        }
        frame
    }
}

/// How often a session sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The shortest interval at which this end can receive, in milliseconds.
    pub min_rx_ms: u32,
    /// The shortest interval at which this end would like to send, in milliseconds.
    pub min_tx_ms: u32,
    /// The number of intervals after which the other end takes this end as gone.
    pub multiplier: u8,
}

impl Default for Timing {
    /// The values of Open vSwitch.
    fn default() -> Self {
        Timing { min_rx_ms: 1000, min_tx_ms: 100, multiplier: 3 }
    }
}

/// What the other end has said.
const UNHEARD: Control = Control {
    state: State::Down,
    diagnostic: 0,
    polls: false,
    is_final: false,
    multiplier: 0,
    discriminators: [0; 2],
    min_tx_us: 0,
    min_rx_us: 1,
};

/// One end of a session.
#[derive(Clone, Debug)]
pub struct Session {
    timing: Timing,
    discriminator: u32,
    state: State,
    diagnostic: u8,
    remote: Control,
    /// Whether this end waits for the answer to a poll.
    polls: bool,
    /// Whether this end has to answer a poll.
    answers: bool,
    next_send: Duration,
    /// When the other end counts as gone.
    expires: Option<Duration>,
    flaps: u64,
    random: u64,
}

impl Session {
    /// A session that is down. `seed` is not to be known to other ends: it makes this end's number of the session, and
    /// intervals that differ from those of other sessions.
    pub fn new(timing: Timing, seed: u64, now: Duration) -> Self {
        Session {
            timing,
            discriminator: (seed as u32).max(1),
            state: State::Down,
            diagnostic: 0,
            remote: UNHEARD,
            polls: false,
            answers: false,
            next_send: now,
            expires: None,
            flaps: 0,
            random: seed,
        }
    }

    /// The state of this end.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether frames of the tunnel arrive at the other end, as far as the session knows.
    pub fn forwards(&self) -> bool {
        self.state == State::Up && !PATHS_DOWN.contains(&self.remote.diagnostic)
    }

    /// The values of Open vSwitch's column `bfd_status`.
    pub fn status(&self) -> BTreeMap<&'static str, String> {
        let of = |text: &str| text.to_owned();
        [
            ("state", of(self.state.name())),
            ("forwarding", self.forwards().to_string()),
            ("diagnostic", of(diagnostic(self.diagnostic))),
            ("remote_state", of(self.remote.state.name())),
            ("remote_diagnostic", of(diagnostic(self.remote.diagnostic))),
            ("flap_count", self.flaps.to_string()),
        ]
        .into()
    }

    /// Takes a received packet into account (RFC 5880 §6.8.6).
    pub fn receive(&mut self, packet: &Control, now: Duration) {
        let [_, own] = packet.discriminators;
        if own != 0 && own != self.discriminator {
            return;
        }
        let forwarded = self.forwards();
        self.remote = *packet;
        self.polls &= !packet.is_final;
        self.answers |= packet.polls;
        match (self.state, packet.state) {
            (State::Init | State::Up, State::AdminDown) | (State::Up, State::Down) => {
                self.enter(State::Down, SIGNALED, now);
            }
            (State::Down, State::Down) => self.enter(State::Init, 0, now),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                self.enter(State::Up, 0, now);
                // The interval of this end becomes shorter.
                self.polls = true;
            }
            _ => {}
        }
        self.flaps += u64::from(forwarded != self.forwards());
        // A packet that asked for a long interval does not delay this end after one that asks for a short interval.
        self.next_send = self.next_send.min(now + Duration::from_micros(self.longest_us()));
        let interval = u64::from(self.own_min_rx_us().max(packet.min_tx_us));
        self.expires = Some(now + Duration::from_micros(interval * u64::from(packet.multiplier)));
    }

    fn enter(&mut self, state: State, diagnostic: u8, now: Duration) {
        (self.state, self.diagnostic) = (state, diagnostic);
        self.polls = false;
        // The other end learns of the change at once (RFC 5880 §6.8.7).
        self.next_send = now;
    }

    /// A packet that is to be sent now. Called again until there is none.
    pub fn advance(&mut self, now: Duration) -> Option<Control> {
        if self.expires.is_some_and(|at| at <= now) {
            let forwarded = self.forwards();
            self.expires = None;
            if matches!(self.state, State::Init | State::Up) {
                self.enter(State::Down, EXPIRED, now);
            }
            (self.remote, self.answers) = (UNHEARD, false);
            self.flaps += u64::from(forwarded);
        }
        if std::mem::take(&mut self.answers) {
            return Some(Control { polls: false, is_final: true, ..self.packet() });
        }
        if self.next_send > now || self.remote.min_rx_us == 0 {
            return None;
        }
        self.next_send = now + self.interval();
        Some(self.packet())
    }

    /// The next time at which [`Session::advance`] has something to do.
    pub fn deadline(&self) -> Duration {
        let sends = Some(self.next_send).filter(|_| self.remote.min_rx_us != 0);
        sends.into_iter().chain(self.expires).min().unwrap_or(self.next_send)
    }

    fn packet(&self) -> Control {
        Control {
            state: self.state,
            diagnostic: self.diagnostic,
            polls: self.polls,
            is_final: false,
            multiplier: self.timing.multiplier,
            discriminators: [self.discriminator, self.remote.discriminators[0]],
            min_tx_us: self.own_min_tx_us(),
            min_rx_us: self.own_min_rx_us(),
        }
    }

    fn own_min_rx_us(&self) -> u32 {
        self.timing.min_rx_ms.saturating_mul(1000)
    }

    fn own_min_tx_us(&self) -> u32 {
        let wanted = self.timing.min_tx_ms.saturating_mul(1000);
        if self.state == State::Up { wanted } else { wanted.max(SLOW_US) }
    }

    /// The time to the next packet: 75 to 100 % of the interval, or to 90 % if one missing packet ends the session (RFC 5880
    /// §6.8.7).
    fn interval(&mut self) -> Duration {
        // Xorshift (Marsaglia 2003) is enough to keep sessions apart.
        self.random |= 1;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let spread = if self.timing.multiplier == 1 { 15 } else { 25 };
        let part = 75 + self.random % (spread + 1);
        Duration::from_micros(self.longest_us() * part / 100)
    }

    /// The longest time to the next packet, in microseconds.
    fn longest_us(&self) -> u64 {
        self.own_min_tx_us().max(self.remote.min_rx_us).into()
    }
}
