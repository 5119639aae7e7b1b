//! The tracker in the place of Linux: the rules of the test's router, and the bytes that leave.
use std::time::Duration;

use conntrack::{
    Choice, ControlChange, Helper, Limits, Mapping, Packet, Request, Seed, Settings, Shard, State, TcpRules,
    Timeouts, Tracker, Translate, Translation, Written, translate_icmp,
};
use flow::Field;
use flow_tables::HeaderWindow;

use super::common::sum;
use super::router::Side;

pub struct Ours {
    tracker: Tracker,
}

/// A datagram that has left.
pub struct Left {
    pub state: &'static str,
    pub datagram: Vec<u8>,
    /// Whether a part of the payload was replaced, perhaps by the same text.
    pub is_replaced: bool,
}

pub fn sum_header(datagram: &mut [u8]) {
    datagram[10..12].fill(0);
    let header = usize::from(datagram[0] & 0xf) * 4;
    let sum = sum(&datagram[..header]);
    datagram[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn mapping(side: conntrack::Side, address: &str) -> Mapping {
    let address = address.parse().unwrap();
    Mapping {
        side,
        addresses: Some((address, address)),
        ports: None,
        choice: Choice::Keep,
        persistent: false,
    }
}

/// The rules of `router.rs`.
fn rule(side: Side, packet: &Packet<'_>) -> Option<Mapping> {
    let (from, to) = (packet.tuple.source.address.to_string(), packet.tuple.destination.address.to_string());
    match (to.as_str(), from.as_str()) {
        ("10.2.0.200", _) => Some(mapping(conntrack::Side::Destination, "10.2.0.1")),
        ("fd02::200", _) => Some(mapping(conntrack::Side::Destination, "fd02::1")),
        (_, "10.1.0.2") if side == Side::Left => Some(mapping(conntrack::Side::Source, "10.2.0.100")),
        (_, "fd01::2") if side == Side::Left => Some(mapping(conntrack::Side::Source, "fd02::100")),
        _ => None,
    }
}

fn name(state: State) -> &'static str {
    let reply = state.has(State::REPLY);
    match () {
        () if state.has(State::INVALID) => "invalid",
        () if state.has(State::NEW) && !state.has(State::RELATED) => "new",
        () if state.has(State::ESTABLISHED) => {
            if reply {
                "established reply"
            } else {
                "established"
            }
        }
        () if reply => "related reply",
        () => "related",
    }
}

/// Writes a translation into a datagram.
fn write(datagram: &[u8], translation: &Translation, change: &ControlChange) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend(if datagram[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
    frame.extend(datagram);
    let mut window = HeaderWindow::new(&frame, frame.len(), 0);
    let known = window.bytes().len();
    for word in change.words() {
        window.put_transport(14 + word.at, word.value.to_be_bytes());
    }
    if let Some(replaced) = &change.payload {
        assert!(window.replace_payload(14 + replaced.at, replaced.removed, replaced.text()));
    }
    window.extract();
    translate_icmp(&mut window.bytes_mut()[14..], translation);
    window.extract();
    let Translation { from, to } = translation;
    let mut key = *window.held();
    let number = |address| match address {
        std::net::IpAddr::V4(address) => u128::from(address.to_bits()),
        std::net::IpAddr::V6(address) => address.to_bits(),
    };
    let fields = match to.source.address.is_ipv4() {
        true => (Field::IpSrc, Field::IpDst),
        false => (Field::Ipv6Src, Field::Ipv6Dst),
    };
    if from.source.address != to.source.address {
        key.set(fields.0, number(to.source.address));
    }
    if from.destination.address != to.destination.address {
        key.set(fields.1, number(to.destination.address));
    }
    let is_message = matches!(key.get(Field::NwProto), 1 | 58);
    if !is_message && key.get(Field::TcpSrc) != 0 {
        key.set(Field::TcpSrc, to.source.port.into());
        key.set(Field::TcpDst, to.destination.port.into());
    }
    window.write(&key);
    let mut left = window.bytes()[14..].to_vec();
    left.extend(&frame[known..]);
    left
}

impl Ours {
    pub fn new(loose: bool) -> Ours {
        let tcp = TcpRules { loose, liberal: false };
        let limits = Limits { connections: 10_000, ports: 2, per_port: 10_000, per_zone: u32::MAX };
        let (timeouts, shard, seed) = (Timeouts::default(), Shard::ALL, Seed([5, 6]));
        let settings = Settings { limits, tcp, timeouts, shard, seed };
        Ours { tracker: Tracker::new(settings, Duration::ZERO) }
    }

    /// Whether a datagram belongs to a connection.
    pub fn knows(&mut self, datagram: &[u8]) -> bool {
        let request = Request { is_seen: true, ..Request::default() };
        Packet::read(datagram).is_ok_and(|packet| {
            let state = self.tracker.track(&packet, &request, Duration::ZERO).state;
            state.has(State::ESTABLISHED)
        })
    }

    pub fn pass(&mut self, side: Side, datagram: &[u8]) -> Left {
        let packet = Packet::read(datagram).ok();
        let (state, translation, is_control) = self.track(side, packet);
        let mut change = ControlChange::default();
        if let Some(packet) = packet.filter(|_| is_control) {
            let request = Request { translate: Translate::Existing, ..Request::default() };
            change = self.tracker.read_control(datagram, &packet, &request, Duration::ZERO);
        }
        let datagram =
            translation.map_or(datagram.to_vec(), |translation| write(datagram, &translation, &change));
        Left { state, datagram, is_replaced: change.payload.is_some() }
    }

    /// The fragments of a datagram with so many bytes of payload, the first one first.
    pub fn pass_whole(
        &mut self,
        side: Side,
        fragments: &[Vec<u8>],
        payload: usize,
    ) -> (&'static str, Vec<Vec<u8>>) {
        let (state, translation, _) = self.track(side, Packet::read_whole(&fragments[0], payload).ok());
        let written = fragments.iter().map(|datagram| {
            let change = ControlChange::default();
            translation.map_or(datagram.to_vec(), |translation| write(datagram, &translation, &change))
        });
        (state, written.collect())
    }

    fn track(&mut self, side: Side, packet: Option<Packet<'_>>) -> (&'static str, Option<Translation>, bool) {
        let Some(packet) = packet else { return ("invalid", None, false) };
        let mapping = rule(side, &packet);
        let control = packet.tuple.destination.port;
        let request = Request {
            port: side as u16,
            commit: Some(Written::default()),
            translate: mapping.as_ref().map_or(Translate::Existing, Translate::New),
            helper: Helper::of_port(control),
            ..Request::default()
        };
        // All frames have the same time: no connection ends by time.
        let verdict = self.tracker.track(&packet, &request, Duration::ZERO);
        (name(verdict.state), verdict.translation, verdict.is_control)
    }
}
