//! The table of connections, and what it says about a frame.
mod helpers;
mod places;
mod prepare;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::connection::{Connection, Judgement, Protocol, Rules};
use crate::controls::Controls;
use crate::index::{Index, Reference};
use crate::limits::{Held, Pools};
use crate::links::{Links, List};
use crate::packet::{Packet, Payload};
use crate::tcp::Known;
use crate::wheel::Wheel;
use crate::{
    Counters, Direction, Helper, Mark, Refusal, Request, Selection, Settings, State, Tuple, Verdict,
};

/// Connections that are ended at most before a connection is kept, because their time is over.
const EXPIRED_AT_ONCE: usize = 8;

/// A table of connections. The time is an argument: it counts from any fixed beginning and never decreases.
#[derive(Debug)]
pub struct Tracker {
    settings: Settings,
    rules: Rules,
    index: Index,
    places: Vec<Option<Connection>>,
    /// The hashes of both tuples of the connection in each place.
    hashes: Vec<[u64; 2]>,
    /// The largest number of places.
    limit: usize,
    free: Vec<u32>,
    wheel: Wheel,
    weak: Links,
    /// For each port, the connections that may be replaced, the oldest first.
    replaceable: Vec<List>,
    /// For each zone and each port, the number of connections in this table.
    zones: Vec<u32>,
    ports: Vec<u32>,
    /// The numbers of connections in all tables.
    held: Arc<Held>,
    pools: Pools,
    controls: Controls,
    counters: Counters,
}

/// A tuple, and its hash in the zone in which it is looked up.
#[derive(Clone, Copy, Debug)]
struct Hashed<'a> {
    tuple: &'a Tuple,
    hash: u64,
}

/// The place and direction of a found connection.
#[derive(Clone, Copy, Debug)]
struct Found {
    place: u32,
    direction: Direction,
}

impl Tracker {
    /// An empty table.
    pub fn new(settings: Settings, now: Duration) -> Self {
        let held = Arc::new(Held::new(&settings.limits));
        Self::with_held(settings, settings.limits.connections, held, now)
    }

    /// An empty table, which has this number of places and shares its limits with other tables.
    pub(crate) fn with_held(settings: Settings, places: u32, held: Arc<Held>, now: Duration) -> Self {
        // A reference to a direction takes 32 bits, zero not used.
        let places = places.min(u32::MAX / 4) as usize;
        Self {
            settings,
            rules: Rules { tcp: settings.tcp, timeouts: settings.timeouts },
            index: Index::new(2 * places),
            places: Vec::with_capacity(places),
            hashes: Vec::with_capacity(places),
            limit: places,
            free: Vec::with_capacity(places),
            wheel: Wheel::new(places, now.as_millis() as u64),
            weak: Links::new(places),
            replaceable: vec![List::default(); settings.limits.ports.into()],
            zones: vec![0; usize::from(u16::MAX) + 1],
            ports: vec![0; settings.limits.ports.into()],
            held,
            pools: Pools::new(places),
            controls: Controls::new(settings.seed),
            counters: Counters::default(),
        }
    }

    /// Numbers of connections.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The number of connections that frames of a port have begun and that are kept.
    pub fn held_by(&self, port: u16) -> u32 {
        self.held.ports.get(usize::from(port)).map_or(0, |held| held.load(Ordering::Relaxed))
    }

    /// The number of connections in a zone.
    pub fn held_in(&self, zone: u16) -> u32 {
        self.held.zones[usize::from(zone)].load(Ordering::Relaxed)
    }

    /// Moves the connections of a zone into another table, which ends those for which it has no place.
    pub(crate) fn move_zone(&mut self, zone: u16, to: &mut Tracker) {
        for place in 0..self.places.len() as u32 {
            if self.zones[usize::from(zone)] == 0 {
                break;
            }
            if self.at(place).is_some_and(|connection| connection.zone == zone)
                && let Some(mut connection) = self.places[place as usize].clone()
            {
                self.remove(place);
                connection.due = to.wheel.due(connection.deadline);
                // The connection does not begin anew. Its hashes are the same in each table.
                to.counters.begun -= u64::from(to.insert(connection, self.hashes[place as usize]));
            }
        }
    }

    /// Ends at most `budget` connections whose time is over. Returns how many have ended. Connections whose time is over
    /// are not found, whether or not this function was called.
    pub fn expire(&mut self, now: Duration, budget: usize) -> usize {
        self.expire_at(now.as_millis() as u64, budget)
    }

    fn expire_at(&mut self, now: u64, budget: usize) -> usize {
        let mut ended = 0;
        for _ in 0..budget {
            let Some(place) = self.wheel.ripe(now) else { break };
            let Some(connection) = &mut self.places[place as usize] else { break };
            if connection.deadline > now {
                self.wheel.remove(place, connection.due);
                connection.due = self.wheel.due(connection.deadline);
                self.wheel.insert(place, connection.due);
                continue;
            }
            self.remove(place);
            self.counters.expired += 1;
            ended += 1;
        }
        ended
    }

    /// Adds a connection that another process has saved, if there is room and its tuples are free.
    pub(crate) fn restore(&mut self, mut connection: Connection) {
        let hashes = connection.tuples.map(|tuple| self.settings.seed.hash(connection.zone, &tuple));
        let is_taken = connection.tuples.iter().zip(hashes).any(|(tuple, hash)| {
            let is_same = |reference: Reference| self.has(reference, connection.zone, tuple);
            self.index.find(hash, is_same).is_some()
        });
        if is_taken {
            return;
        }
        if connection.pool.is_some() {
            let translated = connection.leaving(Direction::Original);
            connection.pool = Some(self.pool(connection.zone, &translated));
        }
        connection.due = self.wheel.due(connection.deadline);
        self.insert(connection, hashes);
    }

    /// Whether a reference is to this tuple of a zone.
    fn has(&self, reference: Reference, zone: u16, tuple: &Tuple) -> bool {
        self.places[reference.place() as usize].as_ref().is_some_and(|connection| {
            connection.zone == zone && connection.tuples[reference.direction() as usize] == *tuple
        })
    }

    /// The connections in some places; `None` behind the last place.
    pub(crate) fn in_places(&self, from: usize, count: usize) -> Option<impl Iterator<Item = &Connection>> {
        let places = self.places.get(from..).filter(|places| !places.is_empty())?;
        Some(places[..count.min(places.len())].iter().flatten())
    }

    /// Ends all connections of any of these selections, in one pass.
    pub fn flush(&mut self, which: &[Selection]) {
        let in_zone = |tracker: &Self, zone: u16| u64::from(tracker.zones[usize::from(zone)]);
        let has_any = |which: &&Selection| which.zone.is_none_or(|zone| in_zone(self, zone) > 0);
        let which: Vec<&Selection> = which.iter().filter(has_any).collect();
        let of = |tracker: &Self| match which[..] {
            [] => 0,
            [Selection { zone: Some(zone), .. }] => in_zone(tracker, *zone),
            _ => tracker.counters.kept,
        };
        for place in 0..self.places.len() as u32 {
            if of(self) == 0 {
                break;
            }
            let Some(connection) = &self.places[place as usize] else { continue };
            if which.iter().any(|which| which.has(connection)) {
                self.remove(place);
            }
        }
    }

    /// What is known about a frame.
    pub fn track(&mut self, packet: &Packet<'_>, request: &Request<'_>, now: Duration) -> Verdict {
        let hash = self.settings.seed.hash(request.zone, packet.connection_tuple());
        self.track_hashed(packet, hash, request, now)
    }

    /// Works like [`Tracker::track`], with the hash of the frame's connection ([`Packet::connection_tuple`]) in its zone.
    pub(crate) fn track_hashed(
        &mut self,
        packet: &Packet<'_>,
        hash: u64,
        request: &Request<'_>,
        now: Duration,
    ) -> Verdict {
        let now = now.as_millis() as u64;
        if let Payload::Error(quote) = &packet.payload {
            return self.related(packet, Hashed { tuple: &quote.tuple, hash }, request, now);
        }
        let hashed = Hashed { tuple: &packet.tuple, hash };
        let mut found = self.find_of(request, hashed, now);
        if let Some(Found { place, direction: Direction::Reply }) = found
            && request.force
            && request.commit.is_some()
        {
            self.remove(place);
            found = None;
        }
        let Some(found) = found else { return self.begin(packet, hash, request, now) };
        self.known(found, packet, hash, request, now)
    }

    /// The connection of a frame. A frame that was tracked before may be translated already.
    fn find_of(&mut self, request: &Request<'_>, of: Hashed<'_>, now: u64) -> Option<Found> {
        let found = self.find(request.zone, of, now);
        if found.is_some() || !request.is_seen {
            return found;
        }
        let reversed = of.tuple.reversed()?;
        let Found { place, direction } = self.find(request.zone, Hashed { tuple: &reversed, ..of }, now)?;
        Some(Found { place, direction: direction.other() })
    }

    fn find(&mut self, zone: u16, Hashed { tuple, hash }: Hashed<'_>, now: u64) -> Option<Found> {
        let found = self.index.find(hash, |reference| self.has(reference, zone, tuple))?;
        if self.at(found.place()).is_some_and(|connection| connection.deadline <= now) {
            self.remove(found.place());
            self.counters.expired += 1;
            return None;
        }
        Some(Found { place: found.place(), direction: found.direction() })
    }

    fn at(&mut self, place: u32) -> Option<&mut Connection> {
        self.places[place as usize].as_mut()
    }

    /// A frame of a connection that is kept.
    fn known(
        &mut self,
        found: Found,
        packet: &Packet<'_>,
        hash: u64,
        request: &Request<'_>,
        now: u64,
    ) -> Verdict {
        let Found { place, direction } = found;
        let rules = self.rules;
        let Some(connection) = &mut self.places[place as usize] else { return Verdict::invalid(None) };
        let shifts = connection.control.and_then(|control| self.controls.get(control));
        let corrected = shifts.map(|control| control.shifts.corrected(packet, direction));
        let packet = corrected.as_ref().unwrap_or(packet);
        let known = connection.known();
        let judgement = match request.is_seen {
            true => Judgement::Accepted { timeout: None, is_assured: false },
            false => connection.protocol.judge(packet, direction, known, &rules),
        };
        if judgement == Judgement::Invalid {
            return Verdict::invalid(None);
        }
        if judgement == Judgement::Reopened {
            self.remove(place);
            return self.begin(packet, hash, request, now);
        }
        connection.is_answered |= direction == Direction::Reply && !request.is_seen;
        let state = match (direction, connection.is_answered) {
            (Direction::Reply, _) => State::ESTABLISHED | State::REPLY,
            (Direction::Original, true) => State::ESTABLISHED,
            (Direction::Original, false) => State::NEW,
        };
        let verdict = connection.verdict(direction, state, request);
        match judgement {
            Judgement::Accepted { timeout, is_assured } => {
                if is_assured {
                    self.assure(place);
                }
                if let Some(timeout) = timeout {
                    self.prolong(place, now + timeout);
                }
            }
            _ => self.remove(place),
        }
        verdict
    }

    /// An ICMP error about a connection (RFC 5508 §4).
    fn related(
        &mut self,
        packet: &Packet<'_>,
        quoted: Hashed<'_>,
        request: &Request<'_>,
        now: u64,
    ) -> Verdict {
        let answered = quoted.tuple.reversed();
        let found = answered.and_then(|tuple| self.find_of(request, Hashed { tuple: &tuple, ..quoted }, now));
        let Some(Found { place, direction }) = found else { return Verdict::invalid(None) };
        let Some(connection) = self.at(place) else { return Verdict::invalid(None) };
        // An ICMP error goes to the sender of the packet that it quotes.
        if !request.is_seen
            && connection.tuples[direction as usize].destination.address != packet.tuple.destination.address
        {
            return Verdict::invalid(None);
        }
        let reply = if direction == Direction::Reply { State::REPLY } else { State::NONE };
        connection.verdict(direction, State::RELATED | reply, request)
    }

    /// A frame that belongs to no connection.
    fn begin(&mut self, packet: &Packet<'_>, hash: u64, request: &Request<'_>, now: u64) -> Verdict {
        let invalid = Verdict::invalid(None);
        let Some(mut protocol) = Protocol::begin(packet, &self.rules) else { return invalid };
        let known = Known { is_answered: false, is_assured: false };
        let judged = protocol.judge(packet, Direction::Original, known, &self.rules);
        let Judgement::Accepted { timeout, .. } = judged else { return invalid };
        let announcement = match self.controls.expected() {
            0 => None,
            _ => self.announcement(&packet.tuple, request.zone, now),
        };
        let related = if announcement.is_some() { State::RELATED } else { State::NONE };
        let mark = announcement.map_or(Mark::default(), |announcement| announcement.mark);
        let state = State::TRACKED | State::NEW | related;
        let Some(written) = request.commit else {
            return Verdict { state, mark, original: Some(packet.tuple), ..Verdict::default() };
        };
        let helper =
            request.helper.filter(|helper| Helper::of_protocol(packet.tuple.protocol) == Some(*helper));
        let timeout = timeout.unwrap_or(0);
        let prepared = match self.prepare(packet, hash, request, announcement.as_ref(), now) {
            Ok(prepared) => prepared,
            Err(refusal) => {
                self.counters.refused += 1;
                return Verdict::invalid(Some(refusal));
            }
        };
        let connection = Connection {
            tuples: [packet.tuple, prepared.reply],
            zone: request.zone,
            port: request.port,
            protocol,
            is_answered: false,
            is_assured: false,
            sides: prepared.sides,
            pool: prepared.pool,
            mark: written.over(mark),
            related,
            helper,
            control: None,
            deadline: now + timeout,
            due: self.wheel.due(now + timeout),
        };
        let request = Request { commit: None, ..*request };
        let verdict = connection.verdict_of(Direction::Original, State::NEW, &request);
        if !self.replace(prepared.replaced, connection, [hash, prepared.reply_hash]) {
            return Verdict::invalid(Some(Refusal::Port));
        }
        if let Some(announcement) = &announcement {
            self.fulfil(announcement);
        }
        Verdict { is_control: helper.is_some(), ..verdict }
    }
}
