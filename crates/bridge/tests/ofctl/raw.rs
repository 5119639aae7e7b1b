//! Messages that `ovs-ofctl` does not send: both bridges answer them with the same bytes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use flow::{Action, Band, BandKind, Bucket, Flow, Group, GroupKind, Meter, MeterUnit};
use openflow::{
    ALL_GROUPS, ALL_METERS, ANY_TABLE, Async, BundleAdd, BundleControl, BundleFlags, BundleStep, Codec,
    Config, FlowCommand, FlowMod, FlowRequest, Framer, GroupCommand, GroupMod, Hello, Message, MeterCommand,
    MeterMod, MonitorFlags, MonitorRequest, Nicira, PacketOut, PortMod, Reply, Request, Role, RoleMessage,
    TableFeatures, TlvCommand, TlvMap, TlvMod, Version,
};

use super::Both;

const LIMIT: Duration = Duration::from_secs(20);
/// The transaction of the barrier that ends a conversation.
const LAST: u32 = 0x7777;

/// What a bridge sends to these messages, behind its hello.
fn answers(target: &str, version: Version, messages: &[Message]) -> Vec<Vec<u8>> {
    let mut stream = UnixStream::connect(target.strip_prefix("unix:").unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let codec = Codec { table_ids: true, ..Codec::new(version) };
    let ids = Message::Nicira(Nicira::FlowModTableId(true));
    let hello = Message::Hello(Hello::of(&[version]));
    let all = [&hello, &ids].into_iter().chain(messages).zip(1..);
    let mut bytes: Vec<u8> =
        all.flat_map(|(message, number)| codec.encode(number, message).unwrap()).collect();
    bytes.extend(codec.encode(LAST, &Message::BarrierRequest).unwrap());
    stream.write_all(&bytes).unwrap();
    let (mut framer, mut answers, mut buffer) = (Framer::new(), Vec::new(), vec![0; 1 << 16]);
    loop {
        let taken = stream.read(&mut buffer).unwrap();
        assert!(taken > 0, "{target} has closed the connection");
        let mut bytes = &buffer[..taken];
        while let Some(message) = framer.next(&mut bytes).unwrap() {
            if message[4..8] == LAST.to_be_bytes() {
                return answers;
            }
            if message[1] != 0 {
                answers.push(message);
            }
        }
    }
}

fn add(text: &str) -> FlowMod {
    FlowMod::new(FlowCommand::Add, Flow::parse(text).unwrap())
}

fn flow(change: FlowMod) -> Message {
    Message::FlowMod(Box::new(change))
}

fn group(command: GroupCommand, id: u32, kind: GroupKind, buckets: &[Bucket]) -> Message {
    let group = Group { id, kind, buckets: buckets.to_vec(), ..Group::default() };
    Message::GroupMod(Box::new(GroupMod { command, group, bucket: u32::MAX }))
}

fn meter(command: MeterCommand, id: u32, bands: usize) -> Message {
    let band = Band { kind: BandKind::Drop, rate: 5, burst: 0 };
    let meter = Meter { id, unit: MeterUnit::Packets, burst: false, stats: false, bands: vec![band; bands] };
    Message::MeterMod(MeterMod { command, meter })
}

fn bundle(id: u32, step: BundleStep, flags: BundleFlags) -> Message {
    Message::BundleControl(BundleControl { id, step, flags, properties: vec![] })
}

fn ask(request: Request) -> Message {
    Message::MultipartRequest(Box::new(request), false)
}

fn role(role: Role, generation: u64) -> Message {
    Message::RoleRequest(RoleMessage { role, generation })
}

/// What empties a bridge.
fn nothing_is_there(version: Version) -> Vec<Message> {
    let everything = Flow { table: ANY_TABLE, ..Flow::default() };
    let mut all = vec![flow(FlowMod::new(FlowCommand::Delete, everything))];
    if version > Version::V10 {
        all.push(group(GroupCommand::Delete, ALL_GROUPS, GroupKind::All, &[]));
        all.push(meter(MeterCommand::Delete, ALL_METERS, 0));
    }
    all
}

fn questions(version: Version) -> Vec<Message> {
    let mut all = vec![
        Message::EchoRequest(vec![1, 2, 3]),
        Message::FeaturesRequest,
        Message::GetConfigRequest,
        Message::SetConfig(Config { flags: 8, miss_bytes: 1 }),
        Message::SetConfig(Config { flags: 0, miss_bytes: 77 }),
        Message::GetConfigRequest,
        Message::BarrierReply,
        ask(Request::Port(99)),
        ask(Request::Queue(99, 0)),
        ask(Request::Queue(1, 5)),
        Message::Nicira(Nicira::SetPacketInFormat(3)),
        Message::Nicira(Nicira::FlowAge),
    ];
    if version > Version::V10 {
        all.extend([
            Message::GetAsyncRequest,
            Message::SetAsync(Async { masks: vec![(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)] }),
            Message::GetAsyncRequest,
            ask(Request::Meter(5)),
            ask(Request::MeterConfig(5)),
            ask(Request::Group(5)),
            ask(Request::GroupFeatures),
            ask(Request::MeterFeatures),
        ]);
    } else {
        all.push(Message::Nicira(Nicira::SetFlowFormat(1)));
    }
    all
}

fn roles(_: Version) -> Vec<Message> {
    let change = || flow(add("table=9,actions=drop"));
    vec![
        role(Role::Equal, 0),
        role(Role::Primary, 1 << 40),
        change(),
        role(Role::Secondary, (1 << 40) + 1),
        change(),
        Message::SetConfig(Config { flags: 1, miss_bytes: 3 }),
        Message::GetConfigRequest,
        role(Role::Primary, 5),
        role(Role::Equal, 0),
        change(),
    ]
}

fn flows(version: Version) -> Vec<Message> {
    let cookie = FlowMod { cookie: 5, cookie_mask: u64::MAX, ..add("table=3,actions=drop") };
    let mut all = vec![
        flow(add("table=254,actions=drop")),
        flow(FlowMod { buffer: Some(7), ..add("table=2,actions=output:1") }),
        flow(add("table=1,priority=5,check_overlap,in_port=1,actions=drop")),
        flow(add("table=1,priority=5,check_overlap,tcp,actions=drop")),
        flow(FlowMod { command: FlowCommand::Delete, ..cookie.clone() }),
        flow(FlowMod { command: FlowCommand::ModifyStrict, nicira: true, ..cookie }),
        flow(FlowMod { command: FlowCommand::Modify, ..add("table=77,cookie=5,in_port=3,actions=output:1") }),
    ];
    if version > Version::V10 {
        all.extend([flow(add("actions=group:5")), flow(add("actions=meter:5,output:1"))]);
    }
    all.push(ask(Request::Aggregate(FlowRequest {
        nicira: true,
        ..FlowRequest::of(ANY_TABLE, flow::Match::ANY)
    })));
    all
}

fn packets(_: Version) -> Vec<Message> {
    let packet = |buffer, input: u16, data: usize| {
        let mut metadata = flow::Match::ANY;
        metadata.set(flow::Field::InPortOxm, input.into());
        Message::PacketOut(Box::new(PacketOut {
            buffer,
            metadata,
            actions: vec![Action::Output(2)],
            data: vec![0; data],
        }))
    };
    vec![
        packet(None, 1, 60),
        packet(Some(5), 1, 0),
        packet(None, flow::port::FLOOD, 60),
        packet(None, flow::port::LOCAL, 60),
    ]
}

fn ports(_: Version) -> Vec<Message> {
    let change =
        |number, address| Message::PortMod(PortMod { number, address, config: 0, mask: 0, advertise: 0 });
    vec![change(99, [0; 6]), change(1, [9; 6])]
}

fn monitors(version: Version) -> Vec<Message> {
    if version == Version::V13 {
        return Vec::new();
    }
    let request = |id| MonitorRequest {
        id,
        flags: MonitorFlags::INITIAL
            .and(MonitorFlags::ADD)
            .and(MonitorFlags::REMOVED)
            .and(MonitorFlags::INSTRUCTIONS),
        out_port: None,
        out_group: None,
        table: ANY_TABLE,
        command: 0,
        wanted: flow::Match::ANY,
    };
    vec![
        flow(add("table=6,cookie=9,in_port=1,actions=output:2")),
        ask(Request::FlowMonitor(vec![request(1)])),
        flow(add("table=6,cookie=9,in_port=2,actions=output:2")),
        flow(FlowMod { command: FlowCommand::Delete, ..add("table=6,actions=drop") }),
    ]
}

fn options(_: Version) -> Vec<Message> {
    let map = |kind, index, bytes| TlvMap { class: 0x102, kind, bytes, index };
    let change =
        |command, maps: &[TlvMap]| Message::Nicira(Nicira::TlvMod(TlvMod { command, maps: maps.to_vec() }));
    vec![
        change(TlvCommand::Add, &[map(1, 0, 4), map(2, 1, 8)]),
        Message::Nicira(Nicira::TlvRequest),
        change(TlvCommand::Add, &[map(3, 0, 4)]),
        change(TlvCommand::Add, &[map(1, 5, 4)]),
        change(TlvCommand::Add, &[map(9, 9, 124), map(8, 8, 124)]),
        change(TlvCommand::Delete, &[map(1, 0, 4)]),
        Message::Nicira(Nicira::TlvRequest),
        change(TlvCommand::Clear, &[]),
        Message::Nicira(Nicira::TlvRequest),
    ]
}

fn groups(version: Version) -> Vec<Message> {
    use GroupCommand::{Add, Delete, Modify};
    use GroupKind::{All, FastFailover, Indirect, Select};
    if version == Version::V10 {
        return Vec::new();
    }
    let bucket = |id| Bucket { id, actions: vec![Action::Output(2)], ..Bucket::default() };
    let watching = |id| Bucket { watch_port: Some(1), ..bucket(id) };
    let weighed = |id| Bucket { weight: 5, ..bucket(id) };
    vec![
        group(Add, 1, All, &[bucket(0), bucket(1)]),
        group(Add, 1, All, &[bucket(0)]),
        group(Modify, 2, All, &[bucket(0)]),
        group(Add, 3, Indirect, &[bucket(0), bucket(1)]),
        group(Add, 3, Indirect, &[]),
        group(Add, 4, FastFailover, &[bucket(0)]),
        group(Add, 4, FastFailover, &[watching(0)]),
        group(Add, 5, All, &[watching(0)]),
        group(Add, 6, Indirect, &[weighed(0)]),
        group(Add, 7, Select, &[weighed(0), weighed(1)]),
        group(Delete, 99, All, &[]),
        flow(add("actions=group:1")),
        group(Delete, 1, All, &[]),
        ask(Request::Aggregate(FlowRequest::of(ANY_TABLE, flow::Match::ANY))),
    ]
}

fn meters(version: Version) -> Vec<Message> {
    use MeterCommand::{Add, Delete, Modify};
    if version == Version::V10 {
        return Vec::new();
    }
    vec![
        meter(Add, 1, 1),
        meter(Add, 1, 1),
        meter(Modify, 2, 1),
        meter(Add, 0, 1),
        meter(Add, 3, 9),
        meter(Delete, 9, 0),
        flow(add("actions=meter:1,output:1")),
        meter(Delete, 1, 0),
        ask(Request::Aggregate(FlowRequest::of(ANY_TABLE, flow::Match::ANY))),
        ask(Request::MeterConfig(ALL_METERS)),
    ]
}

fn bundles(version: Version) -> Vec<Message> {
    use BundleStep::{CloseRequest, CommitReply, CommitRequest, DiscardRequest, OpenRequest};
    if version == Version::V10 {
        return Vec::new();
    }
    let both = BundleFlags { atomic: true, ordered: true };
    let put = |id, flags, message| Message::BundleAdd(BundleAdd { id, flags, message: Box::new(message) });
    vec![
        bundle(1, OpenRequest, both),
        bundle(1, OpenRequest, both),
        bundle(1, CommitRequest, both),
        put(2, both, flow(add("table=1,cookie=1,actions=drop"))),
        put(2, both, flow(add("table=2,cookie=2,actions=group:99"))),
        put(2, both, flow(add("table=3,cookie=3,actions=drop"))),
        bundle(2, CommitRequest, both),
        bundle(2, CommitRequest, both),
        ask(Request::Aggregate(FlowRequest::of(ANY_TABLE, flow::Match::ANY))),
        put(3, both, flow(add("table=1,cookie=1,actions=drop"))),
        bundle(3, CloseRequest, both),
        bundle(3, CloseRequest, both),
        put(4, both, flow(add("table=1,cookie=1,actions=drop"))),
        put(4, BundleFlags::default(), flow(add("table=1,cookie=1,actions=drop"))),
        bundle(4, CommitRequest, both),
        put(5, both, flow(add("table=1,cookie=1,actions=drop"))),
        bundle(5, CommitRequest, BundleFlags::default()),
        put(6, both, flow(add("table=1,cookie=1,actions=drop"))),
        bundle(6, DiscardRequest, both),
        bundle(6, DiscardRequest, both),
        bundle(6, CommitReply, both),
        put(7, both, group(GroupCommand::Add, 9, GroupKind::All, &[])),
        put(7, both, flow(add("table=1,cookie=1,actions=group:9"))),
        bundle(7, CommitRequest, both),
        ask(Request::Aggregate(FlowRequest::of(ANY_TABLE, flow::Match::ANY))),
    ]
}

/// A conversation in this version.
type Conversation = (&'static str, fn(Version) -> Vec<Message>);

const CONVERSATIONS: [Conversation; 10] = [
    ("questions", questions),
    ("roles", roles),
    ("flows", flows),
    ("packets", packets),
    ("ports", ports),
    ("monitors", monitors),
    ("options", options),
    ("groups", groups),
    ("meters", meters),
    ("bundles", bundles),
];

#[test]
fn both_bridges_answer_with_the_same_bytes() {
    let both = Both::new();
    let mut different = Vec::new();
    for version in Version::ALL {
        for (name, conversation) in CONVERSATIONS {
            let messages = [nothing_is_there(version), conversation(version)].concat();
            let of = |target: &str| answers(target, version, &messages);
            let (ours, theirs) = (of(&both.server.target()), of(&both.ovs.management()));
            let codec = Codec::new(version);
            let decoded = |all: &[Vec<u8>]| -> Vec<String> {
                all.iter().map(|bytes| format!("{bytes:02x?} {:?}", codec.decode(bytes))).collect()
            };
            let (ours, theirs) = (decoded(&ours), decoded(&theirs));
            for one in ours.iter().filter(|one| !theirs.contains(one)) {
                different.push(format!("{version:?} {name}: here {one}"));
            }
            for one in theirs.iter().filter(|one| !ours.contains(one)) {
                different.push(format!("{version:?} {name}: Open vSwitch {one}"));
            }
            if different.is_empty() {
                assert_eq!(ours, theirs, "{version:?} {name}: another order");
            }
        }
    }
    assert!(different.is_empty(), "{} answers differ:\n{}", different.len(), different.join("\n"));
}

/// The features of all tables.
fn features(target: &str, version: Version) -> Vec<TableFeatures> {
    let answers = answers(target, version, &[ask(Request::TableFeatures(vec![]))]);
    let of = |bytes: &Vec<u8>| match Codec::new(version).decode(bytes).unwrap().message {
        Message::MultipartReply(reply, _) => match *reply {
            Reply::TableFeatures(tables) => tables,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    answers.iter().flat_map(of).collect()
}

/// Elements of a property: numbers of tables, of instructions and actions, headers of fields.
fn elements(kind: u16, value: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut all) = (value, Vec::new());
    while !rest.is_empty() {
        let length = match kind {
            2 | 3 => 1,
            8.. if rest[..2] == [0xff, 0xff] => 8,
            _ => 4,
        };
        let (element, behind) = rest.split_at(length);
        all.push(element.to_vec());
        rest = behind;
    }
    all
}

#[test]
fn tables_can_do_what_open_vswitchs_can_but_for_the_fields_and_actions_that_are_not_here() {
    let both = Both::new();
    for version in [Version::V13, Version::V14, Version::V15] {
        let (ours, theirs) =
            (features(&both.server.target(), version), features(&both.ovs.management(), version));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            assert_eq!(ours.properties.len(), theirs.properties.len());
            for (own, other) in ours.properties.iter().zip(&theirs.properties) {
                assert_eq!(own.kind, other.kind);
                let (own, other) = (elements(own.kind, &own.value), elements(other.kind, &other.value));
                // Open vSwitch writes these headers without their experimenter.
                let is_odd = |one: &&Vec<u8>| one.len() == 8 && one[4..] == [0xd4, 0, 0, 1];
                let more: Vec<_> = own.iter().filter(|one| !is_odd(one) && !other.contains(one)).collect();
                assert!(more.is_empty(), "{version:?}, table {}: {more:02x?}", ours.table);
                // NSH, packet types, ERSPAN, GTP-U, tunnel options from the ninth on.
                assert!(other.len() < own.len() + 90, "{} of {}", own.len(), other.len());
            }
            let plain = |features: TableFeatures| TableFeatures { properties: vec![], ..features };
            assert_eq!(plain(ours), plain(theirs));
        }
    }
}
