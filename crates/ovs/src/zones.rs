//! The limits of zones of tracked connections, as `ovs-vsctl set-zone-limit` writes them.

use std::collections::BTreeMap;

use ovsdb::{Atom, Cache, Datum, Uuid};

use crate::rows::integer;

/// The limits of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneLimits {
    /// The number of connections of each zone that has no limit of its own.
    default: Option<u32>,
    /// The number of connections of zones.
    zones: BTreeMap<u16, u32>,
}

/// A change of limits, as in [`control::Request::ConnectionLimits`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub default: Option<u32>,
    pub zones: Vec<(u16, Option<u32>)>,
}

impl ZoneLimits {
    /// The limits in the rows of the datapath in user space.
    pub fn of(cache: &Cache, datapaths: &[Uuid]) -> Self {
        let mut limits = ZoneLimits::default();
        let small = |row, column: &str| integer(row, column).and_then(|limit| u32::try_from(limit).ok());
        for row in datapaths.iter().filter_map(|id| cache.row("Datapath", *id)) {
            limits.default = small(row, "ct_zone_default_limit");
            let Some(Datum::Map(zones)) = row.get("ct_zones") else { continue };
            limits.zones.extend(zones.iter().filter_map(|(zone, row)| {
                let (Atom::Integer(zone), Atom::Uuid(row)) = (zone, row) else { return None };
                Some((u16::try_from(*zone).ok()?, small(cache.row("CT_Zone", *row)?, "limit")?))
            }));
        }
        limits
    }

    /// Whether the database has limits.
    pub fn is_empty(&self) -> bool {
        *self == ZoneLimits::default()
    }

    /// The change that makes these limits of former ones; `None` if they are the same.
    pub fn change_from(&self, former: &Self) -> Option<Change> {
        let gone = former.zones.keys().filter(|zone| !self.zones.contains_key(zone));
        let new = self.zones.iter().filter(|(zone, limit)| former.zones.get(zone) != Some(limit));
        let zones: Vec<_> =
            gone.map(|zone| (*zone, None)).chain(new.map(|(zone, limit)| (*zone, Some(*limit)))).collect();
        let default = (self.default != former.default).then_some(self.default.unwrap_or(0));
        (default.is_some() || !zones.is_empty()).then_some(Change { default, zones })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_differ_are_changed() {
        let limits =
            |default, zones: &[(u16, u32)]| ZoneLimits { default, zones: zones.iter().copied().collect() };
        let [none, some] = [limits(None, &[]), limits(Some(5), &[(1, 3), (2, 0), (3, 9)])];
        let change = |default, zones: &[(u16, Option<u32>)]| Some(Change { default, zones: zones.to_vec() });
        assert_eq!(some.change_from(&none), change(Some(5), &[(1, Some(3)), (2, Some(0)), (3, Some(9))]));
        assert_eq!(
            limits(Some(5), &[(2, 1), (3, 9)]).change_from(&some),
            change(None, &[(1, None), (2, Some(1))])
        );
        assert_eq!(limits(None, &[(1, 3), (2, 0), (3, 9)]).change_from(&some), change(Some(0), &[]));
        assert_eq!((some.change_from(&some), none.is_empty(), some.is_empty()), (None, true, false));
    }
}
