//! Flow monitors.

use controllers::{ConnectionId, Limits};
use openflow::{
    Failure, Message, MonitorEvent, MonitorFlags, MonitorRequest, MonitorUpdate, Nicira, Reply, Request,
    Version,
};

use super::{Peers, code, flow_mod};

const ALL: MonitorFlags =
    MonitorFlags::INITIAL.and(MonitorFlags::ADD).and(MonitorFlags::REMOVED).and(MonitorFlags::MODIFY);

fn request(id: u32, flags: MonitorFlags, wanted: &str) -> MonitorRequest {
    let wanted = flow::Match::parse(wanted).unwrap();
    MonitorRequest {
        id,
        flags,
        out_port: None,
        out_group: None,
        table: openflow::ANY_TABLE,
        command: 0,
        wanted,
    }
}

fn ask(requests: &[MonitorRequest]) -> Message {
    Message::MultipartRequest(Box::new(Request::FlowMonitor(requests.to_vec())), false)
}

fn updates(messages: impl IntoIterator<Item = Message>) -> Vec<MonitorUpdate> {
    let of = |message| match message {
        Message::MultipartReply(reply, _) => match *reply {
            Reply::FlowMonitor(updates) => updates,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    messages.into_iter().flat_map(of).collect()
}

/// What a controller is told of flows, unasked.
fn told(peers: &mut Peers, id: ConnectionId) -> Vec<MonitorUpdate> {
    updates(
        peers.sent(id).into_iter().filter(|(transaction, _)| *transaction == 0).map(|(_, message)| message),
    )
}

#[test]
fn a_monitor_begins_with_the_flows_that_there_are() {
    for version in [Version::V10, Version::V14, Version::V15] {
        let mut peers = Peers::new();
        peers.switch.flows = (3, 1);
        let id = peers.connect(version);
        let all = ALL.and(MonitorFlags::INSTRUCTIONS);
        let first = updates(peers.ask(id, &ask(&[request(1, all, "")])));
        // OpenFlow 1.0 tells of them as if they were new.
        let event = if version == Version::V10 { MonitorEvent::Added } else { MonitorEvent::Initial };
        assert_eq!(first.len(), 3);
        for update in first {
            assert!(
                matches!(update, MonitorUpdate::Full(flow) if flow.event == event && flow.actions.len() == 1)
            );
        }
    }
}

#[test]
fn changes_by_others_are_told_in_full_and_own_ones_in_short() {
    let mut peers = Peers::new();
    let (own, other) = (peers.connect(Version::V15), peers.connect(Version::V15));
    let changes = MonitorFlags::ADD.and(MonitorFlags::REMOVED);
    assert_eq!(updates(peers.ask(own, &ask(&[request(1, changes, "in_port=1")]))), []);
    peers.tell(other, 9, &flow_mod("in_port=1,tcp actions=drop"));
    assert!(matches!(&told(&mut peers, own)[..], [MonitorUpdate::Full(flow)] if flow.actions.is_empty()));
    assert_eq!(peers.sent(other), []);
    peers.tell(own, 10, &flow_mod("in_port=1,udp actions=drop"));
    assert_eq!(told(&mut peers, own), [MonitorUpdate::Abbreviated(10)]);
    // Flows that the monitor is not about.
    peers.tell(other, 11, &flow_mod("in_port=2 actions=drop"));
    peers.tell(other, 12, &flow_mod("actions=drop"));
    assert_eq!(told(&mut peers, own), []);
}

#[test]
fn a_monitor_can_ask_for_own_changes_in_full_or_for_no_others() {
    let mut peers = Peers::new();
    let (own, other) = (peers.connect(Version::V15), peers.connect(Version::V15));
    let flags = MonitorFlags::ADD.and(MonitorFlags::NO_ABBREV).and(MonitorFlags::ONLY_OWN);
    peers.ask(own, &ask(&[request(1, flags, "")]));
    peers.tell(other, 9, &flow_mod("in_port=1 actions=drop"));
    assert_eq!(told(&mut peers, own), []);
    peers.tell(own, 10, &flow_mod("in_port=1 actions=drop"));
    assert!(matches!(&told(&mut peers, own)[..], [MonitorUpdate::Full(_)]));
}

#[test]
fn monitors_are_numbered_changed_and_ended() {
    let mut peers = Peers::with(Limits { monitors: 2, ..Limits::default() });
    let id = peers.connect(Version::V15);
    let add = |number| request(number, MonitorFlags::ADD, "");
    peers.ask(id, &ask(&[add(1)]));
    assert_eq!(peers.refused(id, &ask(&[add(2), add(1)])), code(Failure::MonitorExists));
    peers.ask(id, &ask(&[add(2)]));
    assert_eq!(peers.refused(id, &ask(&[add(3)])), code(Failure::NotPermitted));
    let changed = MonitorRequest { command: 1, flags: MonitorFlags::REMOVED, ..add(2) };
    peers.ask(id, &ask(&[changed, MonitorRequest { command: 2, ..add(1) }]));
    let gone = MonitorRequest { command: 2, ..add(1) };
    assert_eq!(peers.refused(id, &ask(&[gone])), code(Failure::UnknownMonitor));
    peers.tell(id, 8, &flow_mod("actions=drop"));
    assert_eq!(peers.sent(id), []); // the one that is left follows flows that end
    assert!(peers.controllers.follow_flows());
    peers.ask(id, &ask(&[MonitorRequest { command: 2, ..add(2) }]));
    assert!(!peers.controllers.follow_flows());
}

#[test]
fn openflow_1_0_ends_monitors_by_a_message_of_its_own() {
    let mut peers = Peers::new();
    let id = peers.connect(Version::V10);
    peers.ask(id, &ask(&[request(1, MonitorFlags::ADD, "")]));
    let cancel = Message::Nicira(Nicira::FlowMonitorCancel(1));
    assert_eq!(peers.refused(id, &cancel), None);
    assert_eq!(peers.refused(id, &cancel), Some(Failure::UnknownMonitor.code(Version::V10)));
}
