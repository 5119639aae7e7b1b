//! What a connection needs before it is kept: room, and a translation that is free.
use std::sync::atomic::Ordering;

use super::helpers::Announcement;
use super::{EXPIRED_AT_ONCE, Tracker};
use crate::nat::{self, Sides};
use crate::packet::Packet;
use crate::{Limits, Refusal, Request, Shard, Translate, Tuple};

impl Tracker {
    /// Makes room for a connection and chooses its translation.
    pub(super) fn prepare(
        &mut self,
        packet: &Packet<'_>,
        request: &Request<'_>,
        announcement: Option<&Announcement>,
        now: u64,
    ) -> Result<(nat::Chosen, Tuple), Refusal> {
        self.make_room(request, now)?;
        let plain = nat::Chosen { translated: packet.tuple, sides: Sides::default(), ports: None };
        let is_free = |tuple: &Tuple| self.is_free(request, tuple);
        let salt = self.counters.begun;
        let seed = &self.settings.seed;
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
        if let Some(ports) = chosen.ports {
            let pool = self.pool(request.zone, &chosen.translated);
            if !self.pools.allows(pool, request.port, ports) {
                return Err(Refusal::Translation);
            }
        }
        let reply = chosen.translated.reversed().ok_or(Refusal::Translation)?;
        Ok((chosen, reply))
    }

    /// The key of the pool of source ports that a translated tuple is from.
    pub(super) fn pool(&self, zone: u16, translated: &Tuple) -> u64 {
        let mut tuple = *translated;
        tuple.source.port = 0;
        self.settings.seed.hash(zone, &tuple)
    }

    /// Whether the answers to a tuple belong to no connection, and come to this table.
    fn is_free(&self, request: &Request<'_>, tuple: &Tuple) -> bool {
        let Request { zone, is_divided, .. } = *request;
        let Some(reply) = tuple.reversed() else { return false };
        let Shard { table, tables } = self.settings.shard;
        let seed = &self.settings.seed;
        let is_taken =
            self.index.find(seed.hash(zone, &reply), |reference| self.has(reference, zone, &reply));
        is_taken.is_none() && (!is_divided || tables <= 1 || Shard::of(seed, zone, &reply, tables) == table)
    }

    /// Makes room for another connection of a port: a connection of the same port that had no answer gives its place.
    fn make_room(&mut self, request: &Request<'_>, now: u64) -> Result<(), Refusal> {
        let Limits { per_port, connections, .. } = self.settings.limits;
        self.expire_at(now, EXPIRED_AT_ONCE);
        if self.held.is_full(request.zone) {
            return Err(Refusal::Zone);
        }
        let replaceable = self.replaceable.get(usize::from(request.port)).ok_or(Refusal::Port)?;
        let free = connections.saturating_sub(self.held.kept.load(Ordering::Relaxed));
        let is_within = self.held_by(request.port) < per_port.min(free);
        if is_within && self.has_share(request.port) {
            return Ok(());
        }
        let place = replaceable.first().ok_or(Refusal::Port)?;
        let connection = self.at(place).ok_or(Refusal::Port)?;
        let is_over = connection.deadline <= now;
        self.remove(place);
        match is_over {
            true => self.counters.expired += 1,
            false => self.counters.evicted += 1,
        }
        Ok(())
    }

    /// Whether a port holds fewer places of this table than are free here. A zone whose addresses are translated has no
    /// other table ([`crate::Shards`]), so a share of all tables together is not enough.
    fn has_share(&self, port: u16) -> bool {
        let held = self.ports.get(usize::from(port)).copied().unwrap_or(0) as usize;
        held < self.limit.saturating_sub(self.counters.kept as usize) // as many as places, at most
    }
}
