//! Changes a running switch: adds and removes ports, and changes their limits.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use frame::Side;
use port::Port;
use virtio::net::MacAddress;

use crate::bonds::Bonds;
use crate::control::Control;
use crate::copies::{Copied, CopiesId, Scope};
use crate::error::ChangeError;
use crate::mirror::{LOOK, Mirror, Mirrored};
use crate::port_entry::PortEntry;
use crate::port_event::PortEvent;
use crate::port_number;
use crate::programs::{networks, own_addresses, programs};
use crate::queue_plan::QueuePlan;
use crate::setup::{Forwarding, NamedPort};
use crate::snapshot::Link;
use crate::{MAX_NETWORKS, MAX_PORTS, PortId, PortOptions};

/// The most rings of copies that replace former ones and that the observer has not taken yet. Further queues are not
/// copied.
const REPLACED: usize = 8;

impl Control {
    /// The place of a port that is there.
    fn place_of(&self, name: &str) -> Result<usize, ChangeError> {
        let named = |entry: &PortEntry| !entry.removed && entry.name == name;
        self.entries.iter().position(named).ok_or_else(|| {
            let known: Vec<&str> = self.present().map(|(_, entry)| entry.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            ChangeError::NoSuchPort { name: name.to_owned(), known }
        })
    }

    /// Adds a port, starts it, and makes it reachable for frames.
    pub(crate) fn add_port(
        &mut self,
        name: &str,
        port: Box<dyn Port>,
        options: PortOptions,
    ) -> Result<(), ChangeError> {
        self.check_vlans(name, &options)?;
        self.put(name, port, Forwarding { options, number: 0, wire: None, forwards: true }).map(drop)
    }

    /// The OpenFlow number of the port at a place with these options.
    fn number_of(&self, name: &str, options: &PortOptions, at: usize) -> Result<u16, ChangeError> {
        let others = self.present().filter(|(id, entry)| {
            let forwarding = &entry.forwarding;
            usize::from(id.0) != at && forwarding.options.network == options.network && forwarding.number > 0
        });
        let taken: Vec<u16> = others.map(|(_, entry)| entry.forwarding.number).collect();
        let number = port_number::choose(options.number, at as u16 + 1, &taken);
        number.map_err(|number| ChangeError::NumberTwice { name: name.to_owned(), number })
    }

    /// Refuses VLANs of a port beside flow tables, which have VLANs of their own.
    fn check_vlans(&self, name: &str, options: &PortOptions) -> Result<(), ChangeError> {
        let by_flows = || self.attachments.common.flows().id(&options.network).is_some();
        match !options.vlans.is_default() && by_flows() {
            true => Err(ChangeError::VlansBesideFlows(name.to_owned())),
            false => Ok(()),
        }
    }

    /// Gives a port a place. The port is not started yet.
    pub(crate) fn enter(
        &mut self,
        name: &str,
        port: Box<dyn Port>,
        mut forwarding: Forwarding,
    ) -> Result<usize, ChangeError> {
        if self.place_of(name).is_ok() {
            return Err(ChangeError::NameTwice(name.to_owned()));
        }
        self.check_network(&forwarding.options.network)?;
        let free = self.entries.iter().position(|entry| entry.removed);
        let at = free.unwrap_or(self.entries.len());
        if at == MAX_PORTS {
            return Err(ChangeError::TooManyPorts);
        }
        if forwarding.wire.is_none() {
            forwarding.number = self.number_of(name, &forwarding.options, at)?;
        }
        let entry = NamedPort { name: name.to_owned(), port, forwarding }.into();
        match free {
            Some(at) => self.entries[at] = entry,
            None => self.entries.push(entry),
        }
        Ok(at)
    }

    fn put(
        &mut self,
        name: &str,
        port: Box<dyn Port>,
        forwarding: Forwarding,
    ) -> Result<PortId, ChangeError> {
        let at = self.enter(name, port, forwarding)?;
        self.entries[at].runs = true;
        self.update_programs();
        // Events of its start come after this one.
        let events = self.events.len();
        self.events.push((name.to_owned(), PortEvent::Added));
        let started = self.try_call(at, |port, context| port.start(context));
        match started.unwrap_or_else(|panicked| Some(Err(panicked.into()))) {
            Some(Err(error)) => {
                self.take_out(at);
                self.events.truncate(events);
                Err(ChangeError::Start(error))
            }
            _ => Ok(PortId(at as u16)),
        }
    }

    /// Whether there may be a port of this network.
    fn check_network(&self, network: &str) -> Result<(), ChangeError> {
        let mut networks: BTreeSet<&str> =
            self.present().map(|(_, entry)| entry.forwarding.options.network.as_str()).collect();
        networks.insert(network);
        if networks.len() > MAX_NETWORKS { Err(ChangeError::TooManyNetworks) } else { Ok(()) }
    }

    /// Notes that the switch must end because of `error`, and returns the error for the caller of the change.
    pub(crate) fn must_end(&mut self, error: crate::RunError) -> ChangeError {
        let said = ChangeError::Ends(error.to_string());
        self.fatal.get_or_insert(error);
        said
    }

    /// Ends and removes a port.
    pub(crate) fn remove_port(&mut self, name: &str) -> Result<(), ChangeError> {
        let at = self.place_of(name)?;
        if self.entries[at].forwarding.wire.is_some() && !self.entries[at].is_mirror() {
            return Err(ChangeError::Wired(name.to_owned()));
        }
        let id = PortId(at as u16);
        let used = |mirror: &Mirrored| mirror.from == id || mirror.to == id;
        if self.mirrors.iter().any(used) {
            return Err(ChangeError::Mirrored(name.to_owned()));
        }
        if let Some(index) = self.mirrors.iter().position(|mirror| mirror.by == id) {
            let mirror = self.mirrors.remove(index);
            self.end_copies(mirror.copies);
        }
        let observers = self.attachments.observers.iter().filter(|observer| observer.scope.port == id);
        let ids: Vec<CopiesId> = observers.map(|observer| observer.id).collect();
        ids.into_iter().for_each(|id| self.end_copies(id));
        let ended = self.call(at, |port, context| port.end(context));
        self.take_out(at);
        self.events.push((name.to_owned(), PortEvent::Removed));
        ended.map(drop).map_err(|error| self.must_end(error))
    }

    fn take_out(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        (entry.runs, entry.removed, entry.port) = (false, true, None);
        self.attachments.clear(PortId(at as u16));
        self.update_programs();
        self.attachments.common.upcalls.end_port(PortId(at as u16));
    }

    /// Replaces the limits of a port.
    pub(crate) fn set_port_options(&mut self, name: &str, options: PortOptions) -> Result<(), ChangeError> {
        let at = self.place_of(name)?;
        self.check_network(&options.network)?;
        self.check_vlans(name, &options)?;
        let old = &self.entries[at].forwarding.options;
        if (&old.network, old.number) != (&options.network, options.number) {
            self.entries[at].forwarding.number = self.number_of(name, &options, at)?;
        }
        let before = std::mem::replace(&mut self.entries[at].forwarding.options, options);
        self.update_programs();
        let now = &self.entries[at].forwarding.options;
        let bond = |options: &PortOptions| options.bond.as_ref().map(|bond| bond.name.clone());
        if before.network != now.network || bond(&before) != bond(now) {
            self.attachments.common.tables.flush(PortId(at as u16));
            self.attachments.common.tables.release(PortId(at as u16));
        }
        Ok(())
    }

    /// Holds a station of a VLAN behind a port until the port goes.
    pub(crate) fn hold_station(&mut self, port: &str, station: (u16, MacAddress)) -> Result<(), ChangeError> {
        let at = self.place_of(port)?;
        let entry = &self.entries[at];
        let (home, network) = (self.bonds.home(PortId(at as u16)), entry.forwarding.options.network.clone());
        if entry.forwarding.wire.is_some()
            || !self.attachments.common.tables.hold(&network, station, Some(home))
        {
            return Err(ChangeError::NotHeld(port.to_owned()));
        }
        self.update_programs();
        self.attachments.common.tables.renew();
        Ok(())
    }

    /// Releases a held station and forgets its port.
    pub(crate) fn release_station(&mut self, network: &str, station: (u16, MacAddress)) {
        self.attachments.common.tables.hold(network, station, None);
        self.update_programs();
    }

    /// Connects two ports by a wire.
    pub(crate) fn add_wire(&mut self, a: &str, b: &str) -> Result<(), ChangeError> {
        let (a_at, b_at) = (self.place_of(a)?, self.place_of(b)?);
        for (at, peer, name) in [(a_at, b_at, a), (b_at, a_at, b)] {
            let id = PortId(at as u16);
            if at == peer || self.mirrors.iter().any(|mirror| mirror.to == id || mirror.by == id) {
                return Err(ChangeError::NoWire(name.to_owned()));
            }
            if self.entries[at].forwarding.wire.is_some_and(|wire| wire != PortId(peer as u16)) {
                return Err(ChangeError::Wired(name.to_owned()));
            }
        }
        self.entries[a_at].forwarding.wire = Some(PortId(b_at as u16));
        self.entries[b_at].forwarding.wire = Some(PortId(a_at as u16));
        self.update_programs();
        Ok(())
    }

    /// Removes the wire between two ports; both learn addresses from now on.
    pub(crate) fn remove_wire(&mut self, a: &str, b: &str) -> Result<(), ChangeError> {
        let ends = [self.place_of(a)?, self.place_of(b)?];
        if self.entries[ends[0]].forwarding.wire != Some(PortId(ends[1] as u16)) {
            return Err(ChangeError::NoWire(a.to_owned()));
        }
        ends.into_iter().for_each(|at| self.entries[at].forwarding.wire = None);
        self.update_programs();
        Ok(())
    }

    /// Rebuilds the programs of all ports.
    pub(crate) fn update_programs(&mut self) {
        let to: Vec<PortId> = self.mirrors.iter().map(|mirror| mirror.to).collect();
        let forwarding = |(at, entry): (usize, &PortEntry)| {
            // The end of a mirror has no other function, but it exists.
            (!entry.removed && !to.contains(&PortId(at as u16))).then(|| entry.forwarding.clone())
        };
        let ports: Vec<Option<Forwarding>> = self.entries.iter().enumerate().map(forwarding).collect();
        let ports: Vec<Option<&Forwarding>> = ports.iter().map(Option::as_ref).collect();
        let common = Arc::clone(&self.attachments.common);
        let entry = |port: PortId| &self.entries[usize::from(port.0)];
        let up = |port: PortId| entry(port).link.is_up && entry(port).has_carrier;
        let before = std::mem::take(&mut self.bonds);
        self.bonds = Bonds::new(&ports, up, &before);
        let programs = programs(&ports, &common.tables, self.link_local, &common.flows(), &self.bonds);
        let pairs = self.entries.iter().map(|entry| entry.port.as_ref().map_or(0, |port| port.queue_pairs()));
        let plan = QueuePlan::new(self.workers, &programs, &pairs.collect::<Vec<_>>());
        common.tables.set_own(own_addresses(&ports, &self.bonds));
        self.attachments.set_programs(programs, plan);
        // The addresses are forgotten only now: with the former programs, a frame's address would have been learned
        // again.
        for (id, port) in (0..).map(PortId).zip(&ports) {
            if port.is_none_or(|port| port.wire.is_some()) {
                common.tables.flush(id);
                common.tables.release(id);
            }
        }
        common.tables.keep(&networks(&ports));
        self.announce_on_bonds(&before);
    }

    /// Says whether the first queue of a port runs now, or none any more.
    pub(crate) fn note_connection(&mut self, index: usize) {
        let is_up = self.attachments.has_queues(PortId(index as u16));
        let entry = &mut self.entries[index];
        if entry.link.is_up == is_up {
            return;
        }
        entry.link = Link { is_up, changes: entry.link.changes + 1 };
        let event = if is_up { PortEvent::Connected } else { PortEvent::Disconnected };
        self.events.push((entry.name.clone(), event));
        if entry.forwarding.options.bond.is_some() {
            self.update_programs();
        }
    }

    /// Copies the frames that pass a port from now on.
    pub(crate) fn copy_port(&mut self, name: &str) -> Result<(CopiesId, Receiver<Copied>), ChangeError> {
        let at = self.place_of(name)?;
        let (feed, copied) = self.feed(at);
        let observed = self.attachments.observe(Scope { port: PortId(at as u16), only: None }, feed);
        let id =
            observed.map_err(|source| ChangeError::System { action: "making room for copies", source })?;
        Ok((id, copied))
    }

    /// A channel for the copies of a port, with room for all its queues and for some that replace stopped ones.
    fn feed(&self, at: usize) -> (SyncSender<Copied>, Receiver<Copied>) {
        let pairs = self.entries[at].port.as_ref().map_or(0, |port| port.queue_pairs());
        sync_channel(2 * usize::from(pairs) + REPLACED)
    }

    /// Ends the copies `id` of [`Control::copy_port`].
    pub(crate) fn end_copies(&mut self, id: CopiesId) {
        self.attachments.end_observation(id);
    }

    /// Copies the frames of one port to another, in one direction or both.
    pub(crate) fn mirror(&mut self, from: &str, to: &str, only: Option<Side>) -> Result<(), ChangeError> {
        let (from_id, to_id) = (PortId(self.place_of(from)? as u16), PortId(self.place_of(to)? as u16));
        let entry = &self.entries[usize::from(to_id.0)];
        if entry.forwarding.wire.is_some() {
            return Err(ChangeError::Wired(to.to_owned()));
        }
        let is_used = |mirror: &Mirrored| mirror.to == from_id || mirror.from == to_id;
        if from_id == to_id || self.mirrors.iter().any(is_used) {
            return Err(ChangeError::Mirrored(to.to_owned()));
        }
        let (feed, copied) = self.feed(usize::from(from_id.0));
        let pairs = self.entries[usize::from(from_id.0)].port.as_ref().map_or(0, |port| port.queue_pairs());
        let port = Box::new(Mirror::new(from, to, pairs, copied));
        let by = self.put(
            &format!("mirror-of-{from}"),
            port,
            Forwarding { options: PortOptions::default(), number: 0, wire: Some(to_id), forwards: true },
        )?;
        match self.attachments.observe(Scope { port: from_id, only }, feed) {
            Ok(copies) => {
                self.mirrors.push(Mirrored { from: from_id, to: to_id, by, copies });
                self.update_programs();
                self.call(usize::from(by.0), |port, context| port.ready(LOOK, context))
                    .map(drop)
                    .map_err(|error| self.must_end(error))
            }
            Err(source) => {
                self.take_out(usize::from(by.0));
                Err(ChangeError::System { action: "making room for copies", source })
            }
        }
    }
}
