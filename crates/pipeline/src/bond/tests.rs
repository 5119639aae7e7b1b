use super::*;
use crate::testing::{Recorder, Said, burst, mac, run, run_with};
use crate::{Admission, Learning, TableOptions};

const BOND: PortId = PortId(4);
const OTHER_EXIT: PortId = PortId(5);

fn table() -> Arc<MacTable> {
    Arc::new(MacTable::new(TableOptions::default(), 8, []))
}

fn learning(port: PortId, table: &Arc<MacTable>, admission: Admission) -> Learning {
    let members = [PortId(0), PortId(1), BOND].into();
    Learning { port, table: Arc::clone(table), members, admission, link_local: false, floods: None }
}

fn bonded(inner: Learning, exits: &[PortId]) -> Bonded {
    let bonds = [BondExits { port: BOND, exits: exits.into() }].into();
    Bonded { inner: Box::new(inner), bonds, reach: [PortId(0), PortId(1), BOND, OTHER_EXIT].into() }
}

#[test]
fn a_flood_has_one_copy_for_a_bond() {
    let program = bonded(learning(PortId(0), &table(), Admission::default()), &[OTHER_EXIT]);
    let batch = burst(&[(MacAddress::BROADCAST, mac(1), 60)]);
    assert_eq!(run(&program, &batch), [Said::Send(PortId(1), 0..1), Said::Send(OTHER_EXIT, 0..1)]);
}

#[test]
fn a_station_leaves_by_one_port_and_changes_only_with_that_port() {
    let exits = BondExits { port: BOND, exits: [3, 4, 5].map(PortId).into() };
    let fewer = BondExits { port: BOND, exits: [3, 5].map(PortId).into() };
    let mut stations = [0; 3];
    for last in 0..240 {
        let station = MacAddress([2, 0, 0, 0, 7, last]);
        let exit = exits.of(station);
        stations[usize::from(exit.0) - 3] += 1;
        assert!(exit == PortId(4) || fewer.of(station) == exit);
    }
    assert!(stations.iter().all(|count| (40..120).contains(count)), "{stations:?}");
    assert_eq!(BondExits { port: BOND, exits: Box::default() }.of(mac(1)), BOND);
}

#[test]
fn what_comes_back_from_the_other_switch_is_dropped() {
    let table = table();
    table.learn(mac(1), PortId(0)).unwrap();
    table.learn(mac(7), BOND).unwrap();
    let member = |takes_groups| {
        let guard = BondGuard { table: Arc::clone(&table), port: BOND, takes_groups, vlans: None };
        learning(BOND, &table, Admission::default().guarded(guard))
    };
    let dropped = Said::Drop(DropReason::NowhereToGo, 1);
    let group = MacAddress::BROADCAST;
    let batch =
        burst(&[(group, mac(1), 60), (group, mac(8), 60), (mac(1), mac(7), 60), (mac(1), mac(1), 60)]);
    let (said, ..) = run_with(&member(true), &batch, Recorder::default());
    let flooded = [PortId(0), PortId(1)].map(|port| Said::Send(port, 1..2));
    let expected =
        [std::slice::from_ref(&dropped), &flooded, &[Said::Send(PortId(0), 2..3), dropped.clone()]].concat();
    assert_eq!(said, expected);
    let (said, ..) = run_with(&member(false), &batch, Recorder::default());
    assert_eq!(said, [dropped.clone(), dropped.clone(), Said::Send(PortId(0), 2..3), dropped]);
}
