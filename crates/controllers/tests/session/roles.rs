//! Roles: the changes that each role may make, and elections.

use openflow::{
    Async, BundleControl, BundleFlags, BundleStep, Failure, GroupCommand, GroupMod, Message, MeterCommand,
    MeterMod, Nicira, PacketOut, Role, RoleMessage, RoleStatus, TableMod, TlvCommand, TlvMod, Version,
};

use super::{Peers, code, flow_mod};

fn ask_role(peers: &mut Peers, id: controllers::ConnectionId, role: Role, generation: u64) -> Vec<Message> {
    peers.ask(id, &Message::RoleRequest(RoleMessage { role, generation }))
}

fn is(role: Role, generation: u64) -> Vec<Message> {
    vec![Message::RoleReply(RoleMessage { role, generation })]
}

#[test]
fn there_is_one_primary_and_old_elections_are_refused() {
    let mut peers = Peers::new();
    let (one, other) = (peers.connect(Version::V15), peers.connect(Version::V15));
    assert_eq!(ask_role(&mut peers, one, Role::NoChange, 0), is(Role::Equal, u64::MAX));
    assert_eq!(ask_role(&mut peers, one, Role::Primary, 10), is(Role::Primary, 10));
    assert_eq!(ask_role(&mut peers, other, Role::Primary, 11), is(Role::Primary, 11));
    let status = RoleStatus { role: Role::Secondary, reason: 0, generation: 11 };
    assert_eq!(peers.sent(one), [(0, Message::RoleStatus(status))]);
    assert_eq!(peers.controllers.role(one), Some(Role::Secondary));
    let [Message::Error(error)] = &ask_role(&mut peers, one, Role::Primary, 10)[..] else { panic!() };
    assert_eq!(Some(error.code), code(Failure::RoleStale));
    // Numbers of elections wrap around.
    assert_eq!(ask_role(&mut peers, one, Role::Secondary, 1 << 62), is(Role::Secondary, 1 << 62));
    assert_eq!(ask_role(&mut peers, one, Role::Secondary, (1 << 63) + 5), is(Role::Secondary, (1 << 63) + 5));
    assert_eq!(ask_role(&mut peers, one, Role::Secondary, 3), is(Role::Secondary, 3));
    // An equal one needs no election.
    assert_eq!(ask_role(&mut peers, one, Role::Equal, 0), is(Role::Equal, 3));
}

#[test]
fn older_versions_are_not_told_of_their_new_role() {
    let mut peers = Peers::new();
    let (one, other) = (peers.connect(Version::V10), peers.connect(Version::V13));
    assert_eq!(ask_role(&mut peers, one, Role::Primary, u64::MAX), is(Role::Primary, u64::MAX));
    ask_role(&mut peers, other, Role::Primary, 1);
    assert_eq!(peers.sent(one), []);
    assert_eq!(peers.controllers.role(one), Some(Role::Secondary));
}

#[test]
fn a_secondary_changes_nothing() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V15);
    ask_role(&mut peers, id, Role::Secondary, 1);
    let mut metadata = flow::Match::ANY;
    metadata.set(flow::Field::InPortOxm, 1);
    let packet = PacketOut { buffer: None, metadata, actions: vec![], data: vec![0; 60] };
    let (step, flags) = (BundleStep::OpenRequest, BundleFlags::default());
    for message in [
        flow_mod("actions=drop"),
        Message::GroupMod(Box::new(GroupMod {
            command: GroupCommand::Add,
            group: flow::Group::default(),
            bucket: u32::MAX,
        })),
        Message::MeterMod(MeterMod { command: MeterCommand::Add, meter: flow::Meter::default() }),
        Message::TableMod(TableMod { table: 0, config: 0, properties: vec![] }),
        Message::PacketOut(Box::new(packet)),
        Message::BundleControl(BundleControl { id: 1, step, flags, properties: vec![] }),
        Message::Nicira(Nicira::TlvMod(TlvMod { command: TlvCommand::Clear, maps: vec![] })),
        Message::Nicira(Nicira::CtFlushZone(1)),
        Message::Nicira(Nicira::CtFlush(Box::default())),
    ] {
        assert_eq!(peers.refused(id, &message), code(Failure::IsSecondary), "{message:?}");
    }
    assert!(peers.switch.changes.is_empty() && peers.switch.flushed.is_empty());
    // A secondary controller may send requests, and may choose the news that it gets.
    assert_eq!(peers.ask(id, &Message::BarrierRequest), [Message::BarrierReply]);
    assert_eq!(peers.refused(id, &Message::SetAsync(Async { masks: vec![(0, 1)] })), None);
    let config = openflow::Config { flags: 2, miss_bytes: 9 };
    assert_eq!(peers.refused(id, &Message::SetConfig(config)), None);
    assert_eq!(peers.switch.fragments, 0);
}
