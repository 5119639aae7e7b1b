use super::*;
use crate::testing::{Recorder, Said, burst, burst_of, mac, run, run_with};
use crate::{Admission, Learning, TableOptions, VlanLearning, VlanOptions};

const BOND: PortId = PortId(4);
const OTHER_EXIT: PortId = PortId(5);

fn table() -> Arc<MacTable> {
    Arc::new(MacTable::new(TableOptions::default(), 8, []))
}

fn learning<G>(port: PortId, table: &Arc<MacTable>, admission: Admission<G>) -> Learning<G> {
    let members = [PortId(0), PortId(1), BOND].into();
    Learning { port, table: Arc::clone(table), members, admission, link_local: false, floods: None }
}

fn bonded(inner: impl Program + 'static, exits: Carriers) -> Bonded {
    let bonds = [BondExits { port: BOND, exits }].into();
    let ports = [PortId(0), PortId(1), BOND, OTHER_EXIT].into();
    Bonded { inner: Box::new(inner), network: BondedNetwork { bonds, ports } }
}

fn buckets(ports: &[u16]) -> Buckets {
    let ports: Vec<PortId> = ports.iter().copied().map(PortId).collect();
    Buckets::new(&ports, &BTreeMap::new(), Arc::default()).unwrap()
}

#[test]
fn a_flood_has_one_copy_for_a_bond() {
    let program = bonded(learning(PortId(0), &table(), Admission::default()), Carriers::One(OTHER_EXIT));
    let batch = burst(&[(MacAddress::BROADCAST, mac(1), 60)]);
    assert_eq!(run(&program, &batch), [Said::Send(PortId(1), 0..1), Said::Send(OTHER_EXIT, 0..1)]);
}

#[test]
fn a_bucket_leaves_by_one_port_and_changes_only_with_that_port() {
    let (all, fewer) = (buckets(&[3, 4, 5]), buckets(&[3, 5]));
    for port in [3, 4, 5].map(PortId) {
        let count = all.ports().iter().filter(|own| **own == port).count();
        assert!((50..120).contains(&count), "{port:?}: {count}");
    }
    for (of_all, of_fewer) in all.ports().iter().zip(fewer.ports()) {
        assert!(*of_all == PortId(4) || of_all == of_fewer);
    }
    assert!(Buckets::new(&[], &BTreeMap::new(), Arc::default()).is_none());
    // A moved bucket keeps its port as long as the port exists.
    let moved = [(7, PortId(3)), (8, PortId(4))].into();
    let ports = Buckets::new(&[PortId(3), PortId(5)], &moved, Arc::default()).unwrap();
    assert_eq!((ports.ports()[7], ports.ports()[8]), (PortId(3), fewer.ports()[8]));
}

/// The outermost VLAN with which the frame leaves is one of the values that choose the bucket.
#[test]
fn a_station_is_balanced_by_vlan() {
    let frame = |tag: Option<u16>| {
        let mut frame = [MacAddress::BROADCAST.0, mac(1).0].concat();
        tag.iter().for_each(|vlan| frame.extend([[0x81, 0], vlan.to_be_bytes()].concat()));
        frame.extend([8, 0]);
        frame.resize(60, 0);
        frame
    };
    let exits = buckets(&[BOND.0, OTHER_EXIT.0]);
    let exit_of = |vlan| exits.ports()[bucket(mac(1), vlan)];
    let vlans: Vec<u16> = (1..40).collect();
    let is_spread = |port| vlans.iter().any(|vlan| exit_of(*vlan) == port);
    assert!(is_spread(BOND) && is_spread(OTHER_EXIT));
    // Without VLANs, frames with the same addresses are one run, whatever their tags.
    let plain = bonded(
        Learning { members: [PortId(0), BOND].into(), ..learning(PortId(0), &table(), Admission::default()) },
        Carriers::ByStation(exits.clone()),
    );
    let sent: Vec<Vec<u8>> = vlans.iter().map(|vlan| frame(Some(*vlan))).collect();
    let expected: Vec<Said> =
        (0..).zip(&vlans).map(|(at, vlan)| Said::Send(exit_of(*vlan), at..at + 1)).collect();
    assert_eq!(run(&plain, &burst_of(&sent)), expected);
    assert_eq!(run(&plain, &burst_of(&[frame(None), frame(None)])), [Said::Send(exit_of(0), 0..2)]);
    let Carriers::ByStation(used) = &plain.network.bonds[0].exits else { panic!() };
    assert_eq!(used.load.take().iter().sum::<u64>(), 60 * (vlans.len() as u64 + 2));
    // The frame comes from an access port: the tag is pushed at the bond.
    for vlan in vlans {
        let access = VlanOptions { tag: Some(vlan), ..VlanOptions::default() };
        let vlans: Arc<[PortVlans]> = (0..6)
            .map(|port| if port == 0 { PortVlans::new(&access) } else { PortVlans::default() })
            .collect();
        let learning = Learning {
            members: [PortId(0), BOND].into(),
            ..learning(PortId(0), &table(), Admission::default())
        };
        let program = bonded(VlanLearning { learning, vlans }, Carriers::ByStation(exits.clone()));
        let said = run(&program, &burst_of(&[frame(None)]));
        let tag = [[0x81, 0], vlan.to_be_bytes()].concat();
        assert_eq!(said, [Said::SendEdited(exit_of(vlan), 0..1, (12, 0, tag))]);
    }
}

#[test]
fn the_head_of_an_edited_frame() {
    let snapshot: Vec<u8> = (0..64).collect();
    let head = |at, removed, inserted: &[u8]| edited_head(&snapshot, &HeadEdit { at, removed, inserted });
    assert_eq!(head(0, 0, &[])[..], snapshot[..HEAD_BYTES]);
    assert_eq!(head(12, 4, &[])[10..], [10, 11, 16, 17, 18, 19, 20, 21]);
    assert_eq!(head(12, 0, &[0x81, 0, 0, 9])[10..], [10, 11, 0x81, 0, 0, 9, 12, 13]);
    assert_eq!(edited_head(&[1; 14], &HeadEdit::NONE)[12..], [1, 1, 0, 0, 0, 0]);
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
