//! The columns that ovs-vswitchd writes for `ovs-vsctl` and others.

use std::collections::BTreeMap;

use ovsdb::{Cache, Datum, Row, Transaction};

use crate::{LOCK, Numbers, Place, Wanted};

/// The number of the interface that stands for a bridge (OpenFlow's `OFPP_LOCAL` of version 1.0).
const LOCAL: i64 = 65534;
/// The number of an interface that cannot be.
const REFUSED: i64 = -1;

/// The columns that differ from what the database has, as one transaction; empty if none does. `failed` says of ports
/// why the switch does not have them.
pub fn report(
    cache: &Cache,
    wanted: &Wanted,
    failed: &BTreeMap<String, String>,
    numbers: &Numbers,
) -> Transaction {
    let mut transaction = Transaction::new();
    let mut changes = Vec::new();
    for interface in &wanted.interfaces {
        let error = match &interface.place {
            Place::Refused(why) => Some(why),
            Place::Port => failed.get(&interface.name),
            Place::Local => None,
        };
        let number = match (&interface.place, error) {
            (_, Some(_)) => Some(REFUSED),
            (Place::Local, None) => Some(LOCAL),
            (_, None) => Some(numbers.of(&interface.name).map_or(REFUSED, i64::from)),
        };
        let columns: Row = [
            ("ofport".to_owned(), number.map_or(Datum::empty(), Datum::from)),
            ("error".to_owned(), error.map_or(Datum::empty(), |why| Datum::from(why.as_str()))),
        ]
        .into();
        changes.push(("Interface", interface.row, columns));
    }
    if let Some((root, configuration)) = wanted.root {
        changes.push(("Open_vSwitch", root, [("cur_cfg".to_owned(), Datum::from(configuration))].into()));
    }
    for (table, row, columns) in changes {
        let there = cache.row(table, row);
        let differs = |column: &String, value: &Datum| there.and_then(|row| row.get(column)) != Some(value);
        let columns: Row = columns.into_iter().filter(|(column, value)| differs(column, value)).collect();
        if !columns.is_empty() {
            if transaction.is_empty() {
                transaction.assert_lock(LOCK);
            }
            transaction.update(table, row, &columns);
        }
    }
    transaction
}
