use std::sync::Arc;

use frame::DropReason;
use proptest::prelude::*;
use virtio::net::MacAddress;

use super::*;
use crate::testing::{self, Said, burst_of, mac, run};
use crate::{Announced, PortId, Program};

/// Type and control information.
type TestTag = (u16, u16);

/// The programs of a network of ports with these VLANs.
fn network(ports: &[VlanOptions]) -> Vec<VlanLearning> {
    let members: Vec<PortId> = (0..ports.len() as u16).map(PortId).collect();
    let vlans: Arc<[PortVlans]> = ports.iter().map(PortVlans::new).collect();
    let with_vlans = |learning| VlanLearning { learning, vlans: Arc::clone(&vlans) };
    testing::network(&members).into_iter().map(with_vlans).collect()
}

fn frame(to: MacAddress, from: MacAddress, tags: &[TestTag]) -> Vec<u8> {
    let mut frame = [to.0, from.0].concat();
    for (kind, control) in tags {
        frame.extend([kind.to_be_bytes(), control.to_be_bytes()].concat());
    }
    frame.extend([8, 0]);
    frame.extend((0..46).map(|n: u8| n ^ 0x45));
    frame
}

/// The frames that each of `ports` ports gets from a burst of one frame.
fn received(program: &dyn Program, ports: usize, sent: &[u8]) -> (Vec<Vec<Vec<u8>>>, Vec<Said>) {
    let mut received = vec![Vec::new(); ports];
    let said = run(program, &burst_of(&[sent.to_vec()]));
    for what in &said {
        match what {
            Said::Send(port, frames) => {
                assert_eq!(*frames, 0..1);
                received[usize::from(port.0)].push(sent.to_vec());
            }
            Said::SendEdited(port, frames, (at, removed, inserted)) => {
                assert_eq!(*frames, 0..1);
                let mut edited = sent.to_vec();
                edited.splice(*at..at + removed, inserted.iter().copied());
                assert_ne!(edited, sent, "an edit that changes nothing");
                received[usize::from(port.0)].push(edited);
            }
            Said::All(_) | Said::Drop(..) => {}
        }
    }
    (received, said)
}

fn access(tag: u16) -> VlanOptions {
    VlanOptions { tag: Some(tag), ..VlanOptions::default() }
}

fn trunk(vlans: &[u16]) -> VlanOptions {
    VlanOptions { trunks: vlans.iter().copied().collect(), ..VlanOptions::default() }
}

fn with_mode(mode: VlanMode, tag: u16, trunks: &[u16]) -> VlanOptions {
    VlanOptions { mode: Some(mode), tag: Some(tag), ..trunk(trunks) }
}

/// The rules of ovs-vswitchd.conf.db(5) for one frame and two ports, over lists of tags. Tags behind the one of the VLAN are
/// payload.
fn by_the_book(from: &VlanOptions, to: &VlanOptions, tags: &[TestTag]) -> Option<Vec<TestTag>> {
    let mode = |port: &VlanOptions| match port.mode {
        Some(mode) => mode,
        None if port.tag.is_some() => VlanMode::Access,
        None => VlanMode::Trunk,
    };
    let is_native =
        |port: &VlanOptions| matches!(mode(port), VlanMode::NativeTagged | VlanMode::NativeUntagged);
    let carries = |port: &VlanOptions, vlan: u16| {
        let native = port.tag.unwrap_or(0);
        let of_trunk = port.trunks.is_empty() || port.trunks.contains(&vlan);
        match is_native(port) {
            true => vlan == native || (vlan != 0 && of_trunk),
            false => of_trunk,
        }
    };
    let is_customers = |port: &VlanOptions, vlan: u16| port.cvlans.is_empty() || port.cvlans.contains(&vlan);
    let vlan_of = |tags: &[TestTag], at: usize| tags.get(at).map_or(0, |(_, control)| control & 0xfff);
    let vlan = vlan_of(tags, 0);
    let own = from.tag.unwrap_or(0);
    let in_own = || {
        let (kind, control) = tags.first().copied().unwrap_or((0x8100, 0));
        let mut within = tags.to_vec();
        within.splice(..tags.len().min(1), [(kind, control & 0xe000 | own)]);
        within
    };
    let mut within = match mode(from) {
        VlanMode::Access => (vlan == 0).then(in_own)?,
        VlanMode::NativeTagged | VlanMode::NativeUntagged if vlan == 0 => in_own(),
        VlanMode::Dot1qTunnel => {
            let kind = if from.is_service_8021q { 0x8100 } else { 0x88a8 };
            is_customers(from, vlan).then(|| [&[(kind, own)], tags].concat())?
        }
        _ => carries(from, vlan).then(|| tags.to_vec())?,
    };
    let vlan = vlan_of(&within, 0);
    let tag = to.tag.unwrap_or(0);
    let is_tunnel = mode(to) == VlanMode::Dot1qTunnel;
    let without_first = match mode(to) {
        VlanMode::Access => (vlan == tag && vlan_of(&within, 1) == 0).then_some(true)?,
        VlanMode::Dot1qTunnel => (vlan == tag && is_customers(to, vlan_of(&within, 1))).then_some(true)?,
        VlanMode::Trunk | VlanMode::NativeTagged => carries(to, vlan).then_some(false)?,
        VlanMode::NativeUntagged => carries(to, vlan).then_some(vlan == tag)?,
    };
    if without_first && !within.is_empty() {
        within.remove(0);
    }
    if to.priority_tags == PriorityTags::Never {
        if !is_tunnel && !within.is_empty() && vlan_of(&within, 0) == 0 {
            within.remove(0);
        }
        return Some(within);
    }
    let priority = tags.first().map_or(0, |(_, control)| control & 0xe000);
    let had = within.first().copied();
    let (kind, control) = had.unwrap_or((0x8100, 0));
    let control = control & 0x1fff | priority;
    let keeps = control != 0 || (had.is_some() && to.priority_tags == PriorityTags::Always);
    within.splice(..within.len().min(1), keeps.then_some((kind, control)));
    Some(within)
}

fn any_vlan() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0_u16, 1, 10, 20, 4095])
}

fn any_port() -> impl Strategy<Value = VlanOptions> {
    let vlans = || prop::collection::btree_set(any_vlan(), 0..4);
    let mode = prop::option::of(prop::sample::select(VlanMode::ALL.to_vec()));
    let priority_tags = prop::sample::select(PriorityTags::ALL.to_vec());
    let parts = (mode, prop::option::of(any_vlan()), vlans(), vlans(), any::<bool>(), priority_tags);
    parts.prop_map(|(mode, tag, trunks, cvlans, is_service_8021q, priority_tags)| VlanOptions {
        mode,
        tag,
        trunks,
        cvlans,
        is_service_8021q,
        priority_tags,
    })
}

fn any_tags() -> impl Strategy<Value = Vec<TestTag>> {
    let tag = (prop::sample::select(vec![0x8100_u16, 0x88a8]), any_vlan(), 0_u16..16);
    prop::collection::vec(tag.prop_map(|(kind, vlan, bits)| (kind, bits << 12 | vlan)), 0..4)
}

proptest! {
    #[test]
    fn each_port_gets_the_frame_as_the_book_says(
        ports in prop::collection::vec(any_port(), 2..7),
        tags in any_tags(),
        is_known: bool,
    ) {
        let programs = network(&ports);
        let to = if is_known { mac(2) } else { MacAddress::BROADCAST };
        let sent = frame(to, mac(1), &tags);
        let mut expected: Vec<Vec<Vec<u8>>> = vec![Vec::new(); ports.len()];
        for (at, port) in ports.iter().enumerate().skip(1) {
            let tags = by_the_book(&ports[0], port, &tags);
            expected[at].extend(tags.map(|tags| frame(to, mac(1), &tags)));
        }
        let (got, _) = received(&programs[0], ports.len(), &sent);
        prop_assert_eq!(&got, &expected);
        if !is_known {
            return Ok(());
        }
        // The station answers from the last port, and is known there in its VLAN from then on.
        let last = ports.len() - 1;
        let Some(there) = got[last].first() else { return Ok(()) };
        let mut back = there.clone();
        back[..6].copy_from_slice(&mac(1).0);
        back[6..12].copy_from_slice(&mac(2).0);
        received(&programs[last], ports.len(), &back);
        let (got, _) = received(&programs[0], ports.len(), &sent);
        prop_assert_eq!(&got[last], &expected[last]);
        let to_others: usize = got[..last].iter().map(Vec::len).sum();
        let is_same_vlan = by_the_book(&ports[last], &ports[last], &[]).is_some() || !got[last].is_empty();
        prop_assert!(is_same_vlan && (to_others == 0 || to_others == expected[..last].iter().map(Vec::len).sum::<usize>()));
    }
}

#[test]
fn frames_of_an_access_port_leave_tagged_at_a_trunk_and_untagged_at_its_like() {
    let ports = network(&[
        access(10),
        access(10),
        access(20),
        trunk(&[10, 20]),
        trunk(&[20]),
        VlanOptions::default(),
    ]);
    let sent = frame(MacAddress::BROADCAST, mac(1), &[]);
    let tagged = frame(MacAddress::BROADCAST, mac(1), &[(0x8100, 10)]);
    let (got, _) = received(&ports[0], 6, &sent);
    assert_eq!(got, [vec![], vec![sent], vec![], vec![tagged.clone()], vec![], vec![tagged.clone()]]);
    assert_eq!(received(&ports[0], 6, &tagged).1, [Said::Drop(DropReason::WrongVlan, 1)]);
    assert_eq!(received(&ports[4], 6, &tagged).1, [Said::Drop(DropReason::WrongVlan, 1)]);
}

#[test]
fn a_tunnel_port_wraps_what_its_customer_sends_and_unwraps_it_again() {
    let tunnel = with_mode(VlanMode::Dot1qTunnel, 100, &[]);
    let ports = network(&[tunnel.clone(), tunnel, trunk(&[100]), access(7)]);
    for tags in [&[][..], &[(0x8100, 7)], &[(0x8100, 7), (0x8100, 8)], &[(0x88a8, 7)], &[(0x8100, 0x2000)]] {
        let sent = frame(MacAddress::BROADCAST, mac(1), tags);
        let wrapped = frame(MacAddress::BROADCAST, mac(1), &[&[(0x88a8, 100)], tags].concat());
        assert_eq!(
            received(&ports[0], 4, &sent).0,
            [vec![], vec![sent.clone()], vec![wrapped.clone()], vec![]]
        );
        assert_eq!(received(&ports[2], 4, &wrapped).0[..2], [vec![sent.clone()], vec![sent]]);
    }
}

#[test]
fn a_tunnel_port_takes_its_customers_vlans_alone_and_its_service_tag_has_the_type_that_is_said() {
    let tunnel = VlanOptions {
        cvlans: [7].into(),
        is_service_8021q: true,
        ..with_mode(VlanMode::Dot1qTunnel, 100, &[])
    };
    let ports = network(&[tunnel.clone(), trunk(&[]), tunnel]);
    let sent = |tags: &[TestTag]| frame(MacAddress::BROADCAST, mac(1), tags);
    let seven = sent(&[(0x8100, 7)]);
    let wrapped = sent(&[(0x8100, 100), (0x8100, 7)]);
    assert_eq!(received(&ports[0], 3, &seven).0, [vec![], vec![wrapped.clone()], vec![seven.clone()]]);
    assert_eq!(received(&ports[1], 3, &wrapped).0, [vec![seven.clone()], vec![], vec![seven]]);
    for other in [sent(&[(0x8100, 8)]), sent(&[])] {
        assert_eq!(received(&ports[0], 3, &other).1, [Said::Drop(DropReason::WrongVlan, 1)]);
    }
    let eight = sent(&[(0x8100, 100), (0x8100, 8)]);
    assert_eq!(received(&ports[1], 3, &eight).1, [Said::Drop(DropReason::NowhereToGo, 1)]);
}

#[test]
fn a_priority_leaves_with_a_tag_of_no_vlan_where_the_port_says_so() {
    let at = |priority_tags| VlanOptions { priority_tags, ..access(10) };
    let tag = |kind: u16, control: u16| frame(MacAddress::BROADCAST, mac(1), &[(kind, control)]);
    let untagged = frame(MacAddress::BROADCAST, mac(1), &[]);
    let [never, nonzero, always] = PriorityTags::ALL.map(at);
    let ports = network(&[trunk(&[]), never, nonzero, always]);
    let with_priority = tag(0x8100, 0xa000);
    let (got, _) = received(&ports[0], 4, &tag(0x8100, 0xa00a));
    assert_eq!(got, [vec![], vec![untagged.clone()], vec![with_priority.clone()], vec![with_priority]]);
    let (got, _) = received(&ports[0], 4, &tag(0x8100, 10));
    assert_eq!(got, [vec![], vec![untagged.clone()], vec![untagged.clone()], vec![untagged.clone()]]);
    let at = |priority_tags| VlanOptions { priority_tags, ..trunk(&[]) };
    let [never, nonzero, always] = PriorityTags::ALL.map(at);
    let ports = network(&[trunk(&[]), never, nonzero, always]);
    let of_no_vlan = tag(0x8100, 0);
    let (got, _) = received(&ports[0], 4, &of_no_vlan);
    assert_eq!(got, [vec![], vec![untagged.clone()], vec![untagged], vec![of_no_vlan]]);
}

#[test]
fn one_address_in_two_vlans_is_two_stations() {
    let ports = network(&[access(10), access(20), trunk(&[]), access(10), access(20)]);
    let to_all = |tags: &[TestTag]| frame(MacAddress::BROADCAST, mac(1), tags);
    received(&ports[0], 5, &to_all(&[]));
    received(&ports[1], 5, &to_all(&[]));
    for (vlan, at) in [(10, 0), (20, 1)] {
        let (got, _) = received(&ports[2], 5, &frame(mac(1), mac(2), &[(0x8100, vlan)]));
        let to: Vec<usize> = (0..5).filter(|port| !got[*port].is_empty()).collect();
        assert_eq!(to, [at], "VLAN {vlan}");
    }
    let known = ports[0].learning.table.stations();
    let mut stations: Vec<_> = known.map(|station| (station.vlan, station.address, station.port)).collect();
    stations.sort();
    let expected = [(10, 1, 0), (10, 2, 2), (20, 1, 1), (20, 2, 2)];
    assert_eq!(stations, expected.map(|(vlan, station, port)| (vlan, mac(station), PortId(port))));
    // A station that announces its place does so in its port's VLAN.
    assert_eq!(ports[3].announce(mac(1)), Announced::Accepted);
    assert_eq!(ports[0].learning.table.lookup_in(10, mac(1)), Some(PortId(3)));
    assert_eq!(ports[0].learning.table.lookup_in(20, mac(1)), Some(PortId(1)));
}

/// A run of frames with the same addresses is one decision only where their tags are the same.
#[test]
fn each_run_of_equal_tags_is_decided_by_itself() {
    let ports = network(&[trunk(&[]), access(10), access(20)]);
    let sent = |tags: &[TestTag]| frame(MacAddress::BROADCAST, mac(1), tags);
    let (ten, twenty) = (sent(&[(0x8100, 10)]), sent(&[(0x8100, 20)]));
    let pop = (12, 4, vec![]);
    let said = run(&ports[0], &burst_of(&[ten.clone(), ten.clone(), twenty, ten]));
    let expected = [(1, 0..2), (2, 2..3), (1, 3..4)];
    assert_eq!(said, expected.map(|(port, frames)| Said::SendEdited(PortId(port), frames, pop.clone())));
}

/// A station whose port has left its VLAN is looked for in the VLAN.
#[test]
fn nothing_leaves_at_a_port_that_is_not_in_the_vlan() {
    let ports = network(&[access(10), access(20), access(10)]);
    ports[0].learning.table.learn_in(10, mac(2), PortId(1)).unwrap();
    let sent = frame(mac(2), mac(1), &[]);
    assert_eq!(received(&ports[0], 3, &sent).0, [vec![], vec![], vec![sent]]);
}
