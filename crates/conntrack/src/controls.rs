//! The control channels of one table of connections, and the connections that they announce.
//!
//! A control channel has at most one expected connection, the last one that it announced. The frames of a port of the
//! switch can begin only so many control channels, in the table and in a zone; further ones are tracked without a helper.
use crate::helper::{Control, Helper};
use crate::index::{Index, Reference};
use crate::limits::Pools;
use crate::shift::Shifts;
use crate::{Direction, Seed, Tuple};

/// The most control channels of a table.
const MAX: usize = 4096;
/// The most control channels of a zone.
const MAX_OF_ZONE: u32 = 1024;
/// The key of the pool of all zones: zones have their numbers.
const ALL_ZONES: u64 = 1 << 16;
/// How long a connection is expected, in ms (as in Linux: five minutes).
const TIME_MS: u64 = 300_000;

/// An expected connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// The tuple with which its first frame comes. The source port is zero, for any port.
    pub arriving: Tuple,
    /// The tuple with which its first frame leaves if it is translated as its control channel. The source port is zero.
    pub leaving: Tuple,
    deadline: u64,
}

impl Expected {
    /// A connection that is expected from now on.
    pub fn new(arriving: Tuple, leaving: Tuple, now: u64) -> Expected {
        Expected { arriving, leaving, deadline: now + TIME_MS }
    }
}

/// The place of a control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlPlace(u32);

/// A control channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub helper: Helper,
    pub control: Control,
    pub shifts: Shifts,
    /// The place of its connection.
    pub master: u32,
    zone: u16,
    port: u16,
    expected: Option<Expected>,
}

/// The control channels of one table.
#[derive(Debug)]
pub(crate) struct Controls {
    seed: Seed,
    places: Vec<Option<Channel>>,
    free: Vec<u32>,
    /// The expected connections by the tuple of their first frame.
    index: Index,
    /// How many of them there are.
    expected: usize,
    pools: Pools,
}

impl Controls {
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            places: Vec::with_capacity(MAX),
            free: Vec::with_capacity(MAX),
            index: Index::new(MAX),
            expected: 0,
            pools: Pools::new(2 * MAX),
        }
    }

    /// Adds the control channel of a connection. `None` if the port has its share.
    pub fn begin(&mut self, helper: Helper, master: u32, zone: u16, port: u16) -> Option<ControlPlace> {
        let has_room = self.pools.allows(ALL_ZONES, port, MAX as u32)
            && self.pools.allows(zone.into(), port, MAX_OF_ZONE);
        if !has_room {
            return None;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < MAX => {
                self.places.push(None);
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        [ALL_ZONES, zone.into()].iter().for_each(|pool| self.pools.add(*pool, port));
        let (control, shifts) = (Control::default(), Shifts::default());
        self.places[place as usize] =
            Some(Channel { helper, control, shifts, master, zone, port, expected: None });
        Some(ControlPlace(place))
    }

    /// Removes a control channel and the connection that it expects.
    pub fn end(&mut self, place: ControlPlace) {
        self.forget(place);
        let Some(channel) = self.places[place.0 as usize].take() else { return };
        let Channel { zone, port, .. } = channel;
        [ALL_ZONES, zone.into()].iter().for_each(|pool| self.pools.remove(*pool, port));
        self.free.push(place.0);
    }

    pub fn get(&self, place: ControlPlace) -> Option<&Channel> {
        self.places[place.0 as usize].as_ref()
    }

    pub fn get_mut(&mut self, place: ControlPlace) -> Option<&mut Channel> {
        self.places[place.0 as usize].as_mut()
    }

    /// The number of expected connections, also of those whose time is over.
    pub fn expected(&self) -> usize {
        self.expected
    }

    /// The control channel that expects the connection of a first frame, and what it expects.
    pub fn find(&self, zone: u16, tuple: &Tuple, now: u64) -> Option<(ControlPlace, Expected)> {
        let mut wanted = *tuple;
        wanted.source.port = 0;
        let of = |reference: Reference| {
            let channel = self.places[reference.place() as usize].as_ref()?;
            channel.expected.filter(|expected| channel.zone == zone && expected.deadline > now)
        };
        let is_wanted = |reference| of(reference).is_some_and(|expected| expected.arriving == wanted);
        let found = self.index.find(self.seed.hash(zone, &wanted), is_wanted)?;
        Some((ControlPlace(found.place()), of(found)?))
    }

    /// Whether no other control channel expects a connection with this tuple.
    pub fn is_free(&self, place: ControlPlace, zone: u16, arriving: &Tuple, now: u64) -> bool {
        self.find(zone, arriving, now).is_none_or(|(other, _)| other == place)
    }

    /// The control channel expects a connection, in place of the one that it has expected.
    pub fn expect(&mut self, place: ControlPlace, expected: Expected) {
        self.forget(place);
        let Some(channel) = &mut self.places[place.0 as usize] else { return };
        let hash = self.seed.hash(channel.zone, &expected.arriving);
        // The index has room for as many as there are control channels.
        self.index.insert(hash, Reference::new(place.0, Direction::Original));
        channel.expected = Some(expected);
        self.expected += 1;
    }

    /// The control channel expects no connection any more.
    pub fn forget(&mut self, place: ControlPlace) {
        let Some(channel) = &mut self.places[place.0 as usize] else { return };
        let Some(expected) = channel.expected.take() else { return };
        let hash = self.seed.hash(channel.zone, &expected.arriving);
        self.index.remove(hash, Reference::new(place.0, Direction::Original));
        self.expected -= 1;
    }
}
