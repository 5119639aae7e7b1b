//! The tables of addresses: one for each network, whose ports learn from each other and from no other port.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline::{MacTable, Station, TableCounts, TableOptions};
use virtio::net::MacAddress;

use crate::snapshot::NetworkSnapshot;
use crate::{MAX_PORTS, PortId};

/// The most stations of a network that are held behind ports by request.
pub(crate) const MOST_HELD: usize = 1024;

/// Addresses that only the ports which list them may use, by network.
pub(crate) type OwnAddresses = BTreeMap<String, Vec<(MacAddress, PortId)>>;

/// All tables. Only the control thread uses this type: a program has the table of its network.
#[derive(Debug)]
pub(crate) struct Tables {
    options: TableOptions,
    now: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_network: BTreeMap<String, Arc<MacTable>>,
    /// Stations that are behind a port by request, whatever frames say, by network.
    held: BTreeMap<String, BTreeMap<(u16, MacAddress), PortId>>,
    /// The counts of the tables of removed networks.
    gone: TableCounts,
}

fn sum(one: TableCounts, other: TableCounts) -> TableCounts {
    TableCounts {
        addresses: one.addresses + other.addresses,
        learned: one.learned + other.learned,
        moved: one.moved + other.moved,
        moves_refused: one.moves_refused + other.moves_refused,
        expired: one.expired + other.expired,
        evicted: one.evicted + other.evicted,
        over_limit: one.over_limit + other.over_limit,
    }
}

impl Tables {
    pub fn new(options: TableOptions, own: OwnAddresses) -> Self {
        let tables = Tables { options, now: AtomicU32::new(0), state: Mutex::default() };
        own.keys().for_each(|network| _ = tables.of(network));
        tables.set_own(own);
        tables
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<MacTable>> {
        self.state().by_network.values().cloned().collect()
    }

    /// The table of a network, which is made if there is none yet.
    pub fn of(&self, network: &str) -> Arc<MacTable> {
        let mut state = self.state();
        let made = || {
            let table = MacTable::new(self.options, MAX_PORTS, []);
            table.set_now(self.now.load(Ordering::Relaxed));
            Arc::new(table)
        };
        Arc::clone(state.by_network.entry(network.to_owned()).or_insert_with(made))
    }

    /// Forgets the tables of all other networks.
    pub fn keep(&self, networks: &BTreeSet<&str>) {
        let mut state = self.state();
        let State { by_network, held, gone } = &mut *state;
        held.retain(|network, _| networks.contains(network.as_str()));
        for (_, table) in by_network.extract_if(.., |network, _| !networks.contains(network.as_str())) {
            *gone = sum(*gone, TableCounts { addresses: 0, ..table.counts() });
        }
    }

    pub fn set_own(&self, mut own: OwnAddresses) {
        let state = self.state();
        for (network, table) in &state.by_network {
            let held = state.held.get(network).into_iter().flatten();
            let held = held.map(|((_, address), port)| (*address, *port));
            table.set_own(own.remove(network).unwrap_or_default().into_iter().chain(held));
        }
    }

    /// Holds a station of a VLAN behind a port of a network; `None` ends that and forgets the station. The caller must
    /// then call [`Tables::set_own`]. False if there are [`MOST_HELD`] already.
    pub fn hold(&self, network: &str, station: (u16, MacAddress), port: Option<PortId>) -> bool {
        let mut state = self.state();
        let State { by_network, held, .. } = &mut *state;
        let held = held.entry(network.to_owned()).or_default();
        match port {
            None => {
                held.remove(&station);
                if let Some(table) = by_network.get(network) {
                    table.forget(station.0, station.1);
                }
            }
            Some(_) if held.len() >= MOST_HELD && !held.contains_key(&station) => return false,
            Some(port) => _ = held.insert(station, port),
        }
        true
    }

    /// Whether a station is held.
    pub fn is_held(&self, network: &str, station: (u16, MacAddress)) -> bool {
        self.state().held.get(network).is_some_and(|held| held.contains_key(&station))
    }

    /// Releases all stations that are held behind a port.
    pub fn release(&self, port: PortId) {
        self.state().held.values_mut().for_each(|held| held.retain(|_, behind| *behind != port));
    }

    /// Learns the stations that are held, so that they do not age.
    pub fn renew(&self) {
        let state = self.state();
        for (network, held) in &state.held {
            let Some(table) = state.by_network.get(network) else { continue };
            for ((vlan, address), port) in held {
                // A station that has moved too often lately stays where it is until the next time.
                let _ = table.learn_in(*vlan, *address, *port);
            }
        }
    }

    pub fn set_now(&self, seconds: u32) {
        let before = self.now.swap(seconds, Ordering::Relaxed);
        self.all().iter().for_each(|table| table.set_now(seconds));
        if before != seconds {
            self.renew();
        }
    }

    pub fn sweep(&self) {
        self.all().iter().for_each(|table| table.sweep());
    }

    /// Forgets all stations behind a port.
    pub fn flush(&self, port: PortId) {
        self.all().iter().for_each(|table| table.flush(port));
    }

    /// Forgets all stations of one network, or of all networks.
    pub fn flush_all(&self, network: Option<&str>) {
        let state = self.state();
        let meant =
            state.by_network.iter().filter(|(name, _)| network.is_none_or(|network| network == *name));
        meant.for_each(|(_, table)| table.flush_all());
        drop(state);
        self.renew();
    }

    /// Addresses behind a port.
    pub fn behind(&self, port: PortId) -> u32 {
        self.all().iter().map(|table| table.behind(port)).sum()
    }

    pub fn stations(&self) -> Vec<Station> {
        self.all().iter().flat_map(|table| table.stations().collect::<Vec<_>>()).collect()
    }

    pub fn counts(&self) -> TableCounts {
        let gone = self.state().gone;
        self.all().iter().fold(gone, |all, table| sum(all, table.counts()))
    }

    pub fn networks(&self) -> Vec<NetworkSnapshot> {
        let counts = |(name, table): (&String, &Arc<MacTable>)| NetworkSnapshot {
            name: name.clone(),
            table: table.counts(),
        };
        self.state().by_network.iter().map(counts).collect()
    }
}
