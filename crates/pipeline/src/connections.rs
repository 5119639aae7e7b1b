//! Connections, for the action `ct` of flow tables.
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conntrack::{
    Choice, Counters, FragmentLimits, Fragments, Helper, Limits, ListFrom, Mapping, Mark, Packet, Page,
    Request, Seed, Selection, Settings, Shard, Shards, Side, TcpRules, Timeouts, Translate, Translation,
    Tuple, Verdict, Written, ZoneLimits, protocol, translate_icmp,
};
use flow::{Field, Nat, NatSide};
use flow_tables::{Connection, HeaderWindow, Original, Track};
use frame::WINDOW_BYTES;

use crate::PortId;

/// The connections of a switch, which all workers share: see [`Shards`].
#[derive(Debug)]
pub struct Connections {
    shards: Shards,
    /// Fragments that wait for the rest of their datagrams.
    fragments: Mutex<Fragments>,
    /// The number of ports; frames of controllers count as those of one additional port.
    ports: u16,
}

/// The most connections that a switch keeps.
pub const MAX_CONNECTIONS: u32 = 1 << 18;
/// The number of tables among which the connections are divided.
const TABLES: u16 = 16;
/// The most connections that frames of one port can begin.
const MAX_OF_PORT: u32 = 1 << 16;

/// What fragments may take that wait for others: memory is reserved and touched as it is used.
const FRAGMENTS: FragmentLimits = FragmentLimits {
    ports: 0,
    bytes: 16 << 20,
    bytes_per_port: 1 << 20,
    datagrams: 4096,
    datagrams_per_port: 256,
    time: Duration::from_secs(30), // as in Linux: net.ipv4.ipfrag_time
};

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mapping(nat: &Nat, side: NatSide) -> Mapping {
    Mapping {
        side: match side {
            NatSide::Source => Side::Source,
            NatSide::Destination => Side::Destination,
        },
        addresses: nat.addresses,
        ports: nat.ports,
        choice: match (nat.hash, nat.random) {
            (true, _) => Choice::Hash,
            (false, true) => Choice::Random,
            (false, false) => Choice::Keep,
        },
        persistent: nat.persistent,
    }
}

fn written(written: &flow_tables::Written) -> Written {
    Written {
        value: Mark { mark: written.mark, label: written.label },
        mask: Mark { mark: written.mark_mask, label: written.label_mask },
    }
}

/// The connection's first direction. For ICMP, the ports are the type and the code.
fn original(tuple: &Tuple) -> Original {
    let ports = match tuple.is_icmp() {
        true => [tuple.destination.port >> 8, tuple.destination.port & 0xff],
        false => [tuple.source.port, tuple.destination.port],
    };
    let Tuple { source, destination, protocol } = tuple;
    Original { source: source.address, destination: destination.address, protocol: *protocol, ports }
}

/// What flows see of a verdict.
pub(crate) fn connection(verdict: &Verdict) -> Connection {
    Connection {
        state: verdict.state.bits(),
        mark: verdict.mark.mark,
        label: verdict.mark.label,
        original: verdict.original.as_ref().map(original),
    }
}

/// The number of bytes of a frame that tracking reads, or more: options of TCP, chunks of SCTP, and the datagram that an
/// ICMP error quotes lie behind the fields, and helpers read the text of control channels.
pub(crate) fn tracked_bytes(window: &HeaderWindow, has_helper: bool) -> usize {
    let Some(at) = window.layers().transport.map(usize::from) else { return 0 };
    let wanted = match window.held().get(Field::NwProto) as u8 {
        _ if window.held().get(Field::IpFrag) != 0 => WINDOW_BYTES,
        protocol::TCP | protocol::UDP if has_helper => WINDOW_BYTES,
        protocol::TCP => at + window.bytes().get(at + 12).map_or(0, |byte| usize::from(byte >> 4) * 4),
        protocol::SCTP | protocol::ICMP | protocol::ICMPV6 => WINDOW_BYTES,
        _ => 0,
    };
    wanted.min(window.frame_bytes()).min(WINDOW_BYTES)
}

/// Writes a translation into the headers of a frame.
pub(crate) fn translate(window: &mut HeaderWindow, translation: &Translation) {
    let Translation { from, to } = translation;
    let network = usize::from(window.layers().network);
    translate_icmp(&mut window.bytes_mut()[network..], translation);
    window.extract();
    let mut key = *window.held();
    let (source, destination) = match to.source.address.is_ipv4() {
        true => (Field::IpSrc, Field::IpDst),
        false => (Field::Ipv6Src, Field::Ipv6Dst),
    };
    for (field, old, new) in
        [(source, from.source, to.source), (destination, from.destination, to.destination)]
    {
        // An error may come from another address than the answers.
        if old.address != new.address {
            key.set(field, number(new.address));
        }
    }
    let kind = key.get(Field::NwProto) as u8;
    if kind == to.protocol && matches!(kind, protocol::TCP | protocol::UDP | protocol::SCTP) {
        key.set(Field::TcpSrc, to.source.port.into());
        key.set(Field::TcpDst, to.destination.port.into());
    }
    window.write(&key);
}

impl Connections {
    /// An empty table for frames of ports with numbers below `ports`, and of controllers.
    pub fn new(ports: u16) -> Self {
        Self::with_seed(ports, [1, 2].map(|number: u64| RandomState::new().hash_one(number)))
    }

    /// Works like [`Connections::new`]. The seed must be random, so that no peer can choose frames with equal hashes.
    pub fn with_seed(ports: u16, seed: [u64; 2]) -> Self {
        let limits = Limits {
            connections: MAX_CONNECTIONS,
            ports: ports.saturating_add(1),
            per_port: MAX_OF_PORT,
            per_zone: u32::MAX,
        };
        let (tcp, timeouts, shard) = (TcpRules::default(), Timeouts::default(), Shard::ALL);
        let settings = Settings { limits, tcp, timeouts, shard, seed: Seed(seed) };
        let fragments = Mutex::new(Fragments::new(FragmentLimits { ports, ..FRAGMENTS }));
        Self { shards: Shards::new(settings, TABLES, Duration::ZERO), fragments, ports }
    }

    /// Numbers of connections.
    pub fn counters(&self) -> Counters {
        self.shards.counters()
    }

    /// Ends all connections of any of these selections. Workers wait while their table is searched.
    pub fn flush(&self, which: &[Selection]) {
        self.shards.flush(which);
    }

    /// The limits of zones.
    pub fn zone_limits(&self) -> ZoneLimits {
        self.shards.zone_limits()
    }

    /// Sets the limits of zones, for connections that begin from now on.
    pub fn limit_zones(&self, limits: ZoneLimits) {
        self.shards.limit_zones(limits);
    }

    /// The number of connections in a zone.
    pub fn held_in(&self, zone: u16) -> u32 {
        self.shards.held_in(zone)
    }

    /// A part of the connections of a zone, or with `None` of all zones; see [`Shards::list`].
    pub fn list(&self, from: ListFrom, zone: Option<u16>, enough: usize, now: Duration) -> Page {
        self.shards.list(from, zone, enough, now)
    }

    /// All connections, as bytes for [`Connections::restore`] of another process. No frame may be tracked meanwhile.
    pub fn save(&self, now: Duration) -> Vec<u8> {
        self.shards.save(now)
    }

    /// Adds the connections that another process has saved. `port` says which port here has the number of a port there;
    /// connections of controllers' frames stay theirs.
    pub fn restore(&self, bytes: &[u8], port: impl Fn(PortId) -> Option<PortId>, now: Duration) {
        let of_controllers = self.ports;
        let port = |number| match number == of_controllers {
            true => Some(number),
            false => port(PortId(number)).map(|port| port.0),
        };
        self.shards.restore(bytes, port, now);
    }

    /// Tracks a frame that came from this port, or from a controller: the connection's state. The frame is translated if
    /// the action says so. The time `now` counts from any fixed beginning.
    pub fn track(
        &self,
        port: Option<PortId>,
        track: &Track,
        window: &mut HeaderWindow,
        now: Duration,
    ) -> Connection {
        // The fields were extracted from the same bytes, and its lengths were checked against the frame's.
        let layers = window.layers();
        let packet = Packet::read(&window.bytes()[usize::from(layers.network)..]).ok();
        let verdict = self.verdict(port, track, packet.filter(|_| layers.transport.is_some()), now);
        if verdict.is_control {
            self.read_control(port, track, window, now);
        }
        if let Some(translation) = &verdict.translation {
            translate(window, translation);
        }
        connection(&verdict)
    }

    /// The fragments that wait.
    pub(crate) fn fragments(&self) -> MutexGuard<'_, Fragments> {
        self.fragments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known about a datagram, or about one that cannot be tracked.
    pub(crate) fn verdict(
        &self,
        port: Option<PortId>,
        track: &Track,
        packet: Option<Packet<'_>>,
        now: Duration,
    ) -> Verdict {
        let Some(packet) = packet else { return Verdict::untracked() };
        let mapping = track.nat.and_then(|nat| Some(mapping(&nat, nat.side?)));
        self.shards.track(&packet, &self.request(port, track, mapping.as_ref()), now)
    }

    /// Reads a frame of a control channel before its addresses are translated, and translates its text.
    #[cold]
    fn read_control(&self, port: Option<PortId>, track: &Track, window: &mut HeaderWindow, now: Duration) {
        let at = usize::from(window.layers().network);
        let datagram = &window.bytes()[at..];
        let Ok(packet) = Packet::read(datagram) else { return };
        // Text of several segments is not read.
        let header = datagram.get(packet.transport + 12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        let read = if window.is_segmented_later() { packet.transport + header } else { datagram.len() };
        let mapping = track.nat.and_then(|nat| Some(mapping(&nat, nat.side?)));
        let request = self.request(port, track, mapping.as_ref());
        let change = self.shards.read_control(&datagram[..read.min(datagram.len())], &packet, &request, now);
        for word in change.words() {
            window.put_transport(at + word.at, word.value.to_be_bytes());
        }
        if let Some(replaced) = &change.payload {
            window.replace_payload(at + replaced.at, replaced.removed, replaced.text());
        }
        window.extract();
    }

    #[inline(always)]
    fn request<'a>(&self, port: Option<PortId>, track: &Track, mapping: Option<&'a Mapping>) -> Request<'a> {
        Request {
            port: port.map_or(self.ports, |port| port.0),
            zone: track.zone,
            commit: track.commit.then(|| written(&track.written)),
            force: track.force,
            translate: match (mapping, track.nat) {
                (Some(mapping), _) => Translate::New(mapping),
                (None, Some(_)) => Translate::Existing,
                (None, None) => Translate::No,
            },
            helper: Helper::of_port(track.helper),
            is_seen: track.is_seen,
            is_divided: false,
        }
    }
}
