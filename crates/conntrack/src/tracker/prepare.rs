//! What a connection needs before it is kept: room, and a translation that is free.
use std::sync::atomic::Ordering;

use super::helpers::Announcement;
use super::{EXPIRED_AT_ONCE, Tracker};
use crate::nat::{self, Sides};
use crate::packet::Packet;
use crate::{Limits, Refusal, Request, Shard, Translate, Tuple};

/// What was chosen for a connection that can be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub sides: Sides,
    /// The tuple with which answers arrive, and its hash.
    pub reply: Tuple,
    pub reply_hash: u64,
    /// The pool that its source port is from.
    pub pool: Option<u64>,
    /// The zone of the connection of the same port that was taken out for this one.
    pub replaced: Option<u16>,
}

impl Tracker {
    /// Makes room for a connection, of whose first tuple this is the hash, and chooses its translation.
    pub(super) fn prepare(
        &mut self,
        packet: &Packet<'_>,
        hash: u64,
        request: &Request<'_>,
        announcement: Option<&Announcement>,
        now: u64,
    ) -> Result<Prepared, Refusal> {
        let replaced = self.make_room(request, now)?;
        let chosen = self.choose(packet, hash, request, announcement);
        if let (Err(_), Some(zone)) = (&chosen, replaced) {
            self.held.count(request.port, zone, false);
        }
        Ok(Prepared { replaced, ..chosen? })
    }

    /// Chooses the translation of a connection for which there is room.
    fn choose(
        &self,
        packet: &Packet<'_>,
        hash: u64,
        request: &Request<'_>,
        announcement: Option<&Announcement>,
    ) -> Result<Prepared, Refusal> {
        let plain = nat::Chosen { translated: packet.tuple, sides: Sides::default(), ports: None };
        let seed = &self.settings.seed;
        // The answers to a tuple have the tuple's hash.
        let hash_of = |tuple: &Tuple| match *tuple == packet.tuple {
            true => hash,
            false => seed.hash(request.zone, tuple),
        };
        let is_free = |tuple: &Tuple| self.is_free(request, tuple, hash_of(tuple));
        let salt = self.counters.begun;
        let announced = announcement.and_then(|announcement| announcement.leaving);
        let chosen = match request.translate {
            Translate::New(_) | Translate::Existing if announced.is_some() => {
                let leaving = announced.unwrap_or(packet.tuple);
                let chosen = nat::choose(&leaving, None, seed, salt, is_free).ok_or(Refusal::Translation)?;
                let nat::Chosen { translated: Tuple { source, destination, .. }, .. } = chosen;
                let sides = Sides {
                    source: source != packet.tuple.source,
                    destination: destination != packet.tuple.destination,
                };
                nat::Chosen { sides, ..chosen }
            }
            Translate::No if is_free(&packet.tuple) => plain,
            Translate::No => return Err(Refusal::Taken),
            Translate::Existing => {
                nat::choose(&packet.tuple, None, seed, salt, is_free).ok_or(Refusal::Translation)?
            }
            Translate::New(mapping) => {
                nat::choose(&packet.tuple, Some(mapping), seed, salt, is_free).ok_or(Refusal::Translation)?
            }
        };
        let pool = chosen.ports.map(|ports| (self.pool(request.zone, &chosen.translated), ports));
        if let Some((pool, ports)) = pool
            && !self.pools.allows(pool, request.port, ports)
        {
            return Err(Refusal::Translation);
        }
        Ok(Prepared {
            sides: chosen.sides,
            reply: chosen.translated.reversed().ok_or(Refusal::Translation)?,
            reply_hash: hash_of(&chosen.translated),
            pool: pool.map(|(pool, _)| pool),
            replaced: None,
        })
    }

    /// The key of the pool of source ports that a translated tuple is from.
    pub(super) fn pool(&self, zone: u16, translated: &Tuple) -> u64 {
        let mut tuple = *translated;
        tuple.source.port = 0;
        self.settings.seed.hash(zone, &tuple)
    }

    /// Whether the answers to a tuple, which have this hash, belong to no connection, and come to this table.
    fn is_free(&self, request: &Request<'_>, tuple: &Tuple, hash: u64) -> bool {
        let Request { zone, is_divided, .. } = *request;
        let Some(reply) = tuple.reversed() else { return false };
        let Shard { table, tables } = self.settings.shard;
        let is_taken = self.index.find(hash, |reference| self.has(reference, zone, &reply));
        is_taken.is_none() && (!is_divided || tables <= 1 || Shard::of_hash(hash, tables) == table)
    }

    /// Makes room for another connection of a port: a connection of the same port that had no answer gives its place. Such
    /// a connection is taken out, and the result is its zone.
    fn make_room(&mut self, request: &Request<'_>, now: u64) -> Result<Option<u16>, Refusal> {
        let Limits { per_port, connections, .. } = self.settings.limits;
        self.expire_at(now, EXPIRED_AT_ONCE);
        if self.held.is_full(request.zone) {
            return Err(Refusal::Zone);
        }
        let replaceable = self.replaceable.get(usize::from(request.port)).ok_or(Refusal::Port)?;
        let free = connections.saturating_sub(self.held.kept.load(Ordering::Relaxed));
        let is_within = self.held_by(request.port) < per_port.min(free);
        if is_within && self.has_share(request.port) {
            return Ok(None);
        }
        let place = replaceable.first().ok_or(Refusal::Port)?;
        let connection = self.at(place).ok_or(Refusal::Port)?;
        let is_over = connection.deadline <= now;
        let taken_out = self.take_out(place);
        match is_over {
            true => self.counters.expired += 1,
            false => self.counters.evicted += 1,
        }
        Ok(taken_out.map(|(_, zone)| zone))
    }

    /// Whether a port holds fewer places of this table than are free here. A zone whose addresses are translated has no
    /// other table ([`crate::Shards`]), so a share of all tables together is not enough.
    fn has_share(&self, port: u16) -> bool {
        let held = self.ports.get(usize::from(port)).copied().unwrap_or(0) as usize;
        held < self.limit.saturating_sub(self.counters.kept as usize) // as many as places, at most
    }
}
