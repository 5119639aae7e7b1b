//! The flow tables of a switch, by the networks that forward by them.
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flow_tables::Tables;
use pipeline::{Connections, ListFrom, Page, Selection, TablesId, Upcalls};

use crate::{MAX_NETWORKS, MAX_PORTS};

/// The places for flow tables: one for each network, and one for the networks without tables of their own.
pub(crate) const MAX_TABLES: usize = MAX_NETWORKS + 1;

/// Flow tables, and the network whose ports forward by them.
#[derive(Clone, Debug)]
struct FlowSet {
    /// `None` for all networks without tables of their own.
    network: Option<String>,
    tables: Arc<Tables>,
}

/// The flow tables of a switch. The number of tables is their place, which stays the same while they are there.
#[derive(Clone, Debug)]
pub(crate) struct FlowSets {
    places: Vec<Option<FlowSet>>,
    /// The connections of the switch, once a port forwards by flow tables.
    connections: Arc<OnceLock<Arc<Connections>>>,
    /// Frames for controllers, and flows to be learned, of all tables.
    pub upcalls: Arc<Upcalls>,
}

impl Default for FlowSets {
    fn default() -> Self {
        FlowSets {
            places: Vec::new(),
            connections: Arc::default(),
            upcalls: Arc::new(Upcalls::new(MAX_PORTS)),
        }
    }
}

impl FlowSets {
    /// Tables for all networks.
    pub fn of_all(tables: Option<Arc<Tables>>) -> Self {
        let set = |tables| Some(FlowSet { network: None, tables });
        FlowSets { places: tables.map(set).into_iter().collect(), ..FlowSets::default() }
    }

    /// The connections of the switch, which all tables share.
    pub fn connections(&self) -> Arc<Connections> {
        Arc::clone(self.connections.get_or_init(|| Arc::new(Connections::new(MAX_PORTS as u16)))) // 1024
    }

    /// Ends the tracked connections of these selections, if a port has ever forwarded by flow tables.
    pub fn flush_connections(&self, which: &[Selection]) {
        self.connections.get().iter().for_each(|connections| connections.flush(which));
    }

    /// A part of the tracked connections; none if no port has ever forwarded by flow tables.
    pub fn list_connections(&self, from: ListFrom, zone: Option<u16>, enough: usize, now: Duration) -> Page {
        let known = self.connections.get();
        known.map(|connections| connections.list(from, zone, enough, now)).unwrap_or_default()
    }

    /// All tracked connections as bytes.
    pub fn save_connections(&self, now: Duration) -> Vec<u8> {
        self.connections.get().map(|connections| connections.save(now)).unwrap_or_default()
    }

    /// All tables.
    pub fn all(&self) -> impl Iterator<Item = (TablesId, &Arc<Tables>)> {
        let places = (0..).map(TablesId).zip(&self.places);
        places.filter_map(|(id, set)| Some((id, &set.as_ref()?.tables)))
    }

    /// The network of tables, which is `None` for tables of all networks without tables of their own; `None` if there are no
    /// tables with this number.
    pub fn network(&self, id: TablesId) -> Option<Option<&str>> {
        self.places.get(usize::from(id.0))?.as_ref().map(|set| set.network.as_deref())
    }

    fn own(&self, network: Option<&str>) -> Option<TablesId> {
        let is_own = |set: &FlowSet| set.network.as_deref() == network;
        let at = self.places.iter().position(|set| set.as_ref().is_some_and(is_own))?;
        Some(TablesId(at as u16)) // MAX_TABLES at most
    }

    /// The number of the tables by which ports of this network forward.
    pub fn id(&self, network: &str) -> Option<TablesId> {
        self.own(Some(network)).or_else(|| self.own(None))
    }

    /// The tables of a network, or those of all networks without tables of their own.
    pub fn get(&self, network: Option<&str>) -> Option<Arc<Tables>> {
        let id = self.own(network)?;
        self.places[usize::from(id.0)].as_ref().map(|set| Arc::clone(&set.tables))
    }

    /// Sets or removes the tables of a network. Returns their number and whether they were there before; `None` if
    /// nothing is to be removed or all places are taken.
    pub fn set(&mut self, network: Option<&str>, tables: Option<Arc<Tables>>) -> Option<(TablesId, bool)> {
        let own = self.own(network);
        let was_there = own.is_some();
        let free = || {
            let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
            (tables.is_some() && free < MAX_TABLES).then_some(TablesId(free as u16))
        };
        let id = own.or_else(free)?;
        let at = usize::from(id.0);
        if at == self.places.len() {
            self.places.push(None);
        }
        self.places[at] = tables.map(|tables| FlowSet { network: network.map(str::to_owned), tables });
        Some((id, was_there))
    }
}

#[cfg(test)]
mod tests {
    use flow_tables::Limits;

    use super::*;

    #[test]
    fn to_flush_makes_no_table_of_connections() {
        let sets = FlowSets::default();
        sets.flush_connections(&[Selection::default()]);
        assert!(sets.connections.get().is_none());
    }

    #[test]
    fn tables_keep_their_number_and_free_ones_are_given_again() {
        let tables = || Some(Arc::new(Tables::new(1, 7, Limits::default())));
        let mut sets = FlowSets::default();
        assert_eq!((sets.set(Some("a"), None), sets.id("a")), (None, None));
        assert_eq!(sets.set(Some("a"), tables()), Some((TablesId(0), false)));
        assert_eq!(sets.set(None, tables()), Some((TablesId(1), false)));
        assert_eq!(sets.set(Some("a"), tables()), Some((TablesId(0), true)));
        assert_eq!((sets.id("a"), sets.id("b")), (Some(TablesId(0)), Some(TablesId(1))));
        assert_eq!(sets.set(Some("a"), None), Some((TablesId(0), true)));
        assert_eq!((sets.id("a"), sets.all().count()), (Some(TablesId(1)), 1));
        let given: Vec<_> = (0..MAX_TABLES).map(|n| sets.set(Some(&n.to_string()), tables())).collect();
        assert_eq!(given[0], Some((TablesId(0), false)));
        assert!(given[MAX_TABLES - 2].is_some() && given[MAX_TABLES - 1].is_none());
    }
}
