//! Connections get places, and leave them: what is counted and listed of each changes with it.
use super::Tracker;
use crate::Direction;
use crate::connection::Connection;
use crate::index::Reference;

impl Tracker {
    /// Adds a connection instead of one of the same port that was taken out, if any, and of which `replaced` is the zone.
    /// The counts of all tables, which other workers read, are written only if they change.
    pub(super) fn replace(
        &mut self,
        replaced: Option<u16>,
        connection: Connection,
        hashes: [u64; 2],
    ) -> bool {
        let Some(replaced) = replaced else { return self.insert(connection, hashes) };
        let (port, zone) = (connection.port, connection.zone);
        let is_added = self.put_in(connection, hashes);
        if !is_added || replaced != zone {
            self.held.count(port, replaced, false);
            if is_added {
                self.held.count(port, zone, true);
            }
        }
        is_added
    }

    fn has_place(&self) -> bool {
        !self.free.is_empty() || self.places.len() < self.limit
    }

    /// Adds a connection, with the hashes of its tuples, and counts it among those of all tables.
    pub(super) fn insert(&mut self, connection: Connection, hashes: [u64; 2]) -> bool {
        let (port, zone) = (connection.port, connection.zone);
        let is_added = self.put_in(connection, hashes);
        if is_added {
            self.held.count(port, zone, true);
        }
        is_added
    }

    /// Adds a connection that is counted among those of all tables already. Returns false if all places are taken, which
    /// [`Tracker::make_room`] prevents.
    fn put_in(&mut self, mut connection: Connection, hashes: [u64; 2]) -> bool {
        if !self.has_place() {
            return false;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.hashes.push([0; 2]);
            self.wheel.grow();
            self.weak.grow();
            self.places.len() as u32 - 1
        });
        self.hashes[place as usize] = hashes;
        for (hash, direction) in hashes.into_iter().zip([Direction::Original, Direction::Reply]) {
            // The index has room for both directions of as many connections as there are places.
            self.index.insert(hash, Reference::new(place, direction));
        }
        if let Some(helper) = connection.helper {
            let Connection { zone, port, .. } = connection;
            connection.control = self.controls.begin(helper, place, zone, port);
        }
        self.wheel.insert(place, connection.due);
        if !connection.is_assured {
            self.weak.push(&mut self.replaceable[usize::from(connection.port)], place);
        }
        self.zones[usize::from(connection.zone)] += 1;
        self.ports[usize::from(connection.port)] += 1;
        if let Some(pool) = connection.pool {
            self.pools.add(pool, connection.port);
        }
        self.places[place as usize] = Some(connection);
        self.counters.begun += 1;
        self.counters.kept += 1;
        true
    }

    /// Removes the connection in a place, if there is one.
    pub(super) fn remove(&mut self, place: u32) {
        if let Some((port, zone)) = self.take_out(place) {
            self.held.count(port, zone, false);
        }
    }

    /// Removes the connection in a place, if there is one, but still counts it among those of all tables. Returns its port
    /// and its zone.
    pub(super) fn take_out(&mut self, place: u32) -> Option<(u16, u16)> {
        let connection = self.places[place as usize].as_ref()?;
        let (port, zone) = (connection.port, connection.zone);
        if let Some(control) = connection.control {
            self.controls.end(control);
        }
        for (hash, direction) in
            self.hashes[place as usize].into_iter().zip([Direction::Original, Direction::Reply])
        {
            self.index.remove(hash, Reference::new(place, direction));
        }
        self.wheel.remove(place, connection.due);
        if !connection.is_assured {
            self.weak.remove(&mut self.replaceable[usize::from(port)], place);
        }
        self.zones[usize::from(zone)] -= 1;
        self.ports[usize::from(port)] -= 1;
        if let Some(pool) = connection.pool {
            self.pools.remove(pool, port);
        }
        self.places[place as usize] = None;
        self.free.push(place);
        self.counters.kept -= 1;
        Some((port, zone))
    }

    /// The connection is not replaced by newer ones any more.
    pub(super) fn assure(&mut self, place: u32) {
        let Some(connection) = &mut self.places[place as usize] else { return };
        if !connection.is_assured {
            connection.is_assured = true;
            self.weak.remove(&mut self.replaceable[usize::from(connection.port)], place);
        }
    }

    pub(super) fn prolong(&mut self, place: u32, deadline: u64) {
        let Some(connection) = &mut self.places[place as usize] else { return };
        connection.deadline = deadline;
        // A later deadline is found when the wheel comes to the connection.
        let due = self.wheel.due(deadline);
        if due < connection.due {
            self.wheel.remove(place, connection.due);
            self.wheel.insert(place, due);
            connection.due = due;
        }
    }
}
