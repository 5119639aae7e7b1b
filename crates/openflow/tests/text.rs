//! Text and bytes of flows have one model: what `ovs-ofctl` prints of OVN's flows goes through the bytes of each version,
//! and what OVN sent goes through text.

use flow::{Action, Field, Flow, Group};
use openflow::{
    ALL_GROUPS, Codec, FlowCommand, FlowMod, Framer, GroupCommand, GroupMod, Message, Reply, Request, Version,
};

const FLOWS: &str = include_str!("../../flow/tests/data/ovn-flows.txt");
const RECORDED: [&[u8]; 2] = [include_bytes!("data/ovn-23.03.bin"), include_bytes!("data/ovn-26.03.bin")];

fn flows() -> impl Iterator<Item = Flow> {
    FLOWS
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("actions="))
        .map(|line| Flow::parse(line).unwrap())
}

/// OpenFlow 1.0 has no instructions: a later table is a table that is asked next. Set-VLAN pushes a tag where there is
/// none, and meters have no bytes.
fn as_in_10(flow: &Flow) -> Flow {
    let mut flow = flow.clone();
    flow.importance = 0;
    for action in &mut flow.actions {
        match action {
            Action::GotoTable(table) => {
                *action = Action::Resubmit { port: None, table: Some(*table), original: false };
            }
            Action::SetField(Field::VlanVid, value, _) => {
                *action = Action::ModVlanVid((*value & 0xfff) as u16)
            }
            _ => {}
        }
    }
    flow.actions.retain(|action| !matches!(action, Action::PushVlan(_) | Action::Meter(_)));
    flow
}

#[test]
fn flows_of_text_are_the_same_behind_the_bytes_of_each_version() {
    let mut count = 0;
    for version in Version::ALL {
        let codec = Codec { table_ids: true, ..Codec::new(version) };
        for flow in flows() {
            let wanted = if version == Version::V10 { as_in_10(&flow) } else { flow.clone() };
            let message = Message::FlowMod(Box::new(FlowMod::new(FlowCommand::Add, flow)));
            let bytes = codec.encode(7, &message).unwrap_or_else(|error| panic!("{error}: {wanted}"));
            let Message::FlowMod(read) =
                codec.decode(&bytes).unwrap_or_else(|error| panic!("{error}: {wanted}")).message
            else {
                panic!("another message: {wanted}");
            };
            assert_eq!(read.flow.to_string(), wanted.to_string(), "{version:?}: {bytes:02x?}");
            assert_eq!(read.flow, wanted, "{version:?}");
            count += 1;
        }
    }
    assert!(count > 400, "{count} flows");
}

#[test]
fn recorded_flows_are_the_same_behind_their_text() {
    let mut count = 0;
    let codec = Codec::new(Version::V15);
    for mut stream in RECORDED {
        let mut framer = Framer::new();
        while let Some(bytes) = framer.next(&mut stream).unwrap() {
            let message = match codec.decode(&bytes).unwrap().message {
                Message::BundleAdd(add) => *add.message,
                message => message,
            };
            let Message::FlowMod(change) = message else { continue };
            if matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict) {
                continue; // their table may be that of all, and their actions say nothing
            }
            let text = change.flow.to_string();
            let read = Flow::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(read.to_string(), text);
            count += 1;
        }
    }
    assert!(count > 500, "{count} flows");
}

/// In OpenFlow 1.0, messages of groups are Nicira's with bodies of OpenFlow 1.5: `ovs-ofctl` sends them without `-O`.
#[test]
fn groups_of_openflow_1_0_have_numbers_and_selections() {
    const TEXT: &str = "group_id=7,type=select,selection_method=hash,fields(ip_src,ip_dst,tcp_src,tcp_dst),\
                        bucket=bucket_id:3,weight:100,actions=mod_vlan_vid:5,output:1";
    let group = Group::parse(TEXT).unwrap();
    let codec = Codec::new(Version::V10);
    let number = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let change = GroupMod { command: GroupCommand::InsertBucket, group: group.clone(), bucket: u32::MAX };
    let change = Message::GroupMod(Box::new(change));
    let bytes = codec.encode(7, &change).unwrap();
    assert_eq!((bytes[1], number(&bytes, 8), number(&bytes, 12)), (4, 0x2320, 31));
    assert_eq!(codec.decode(&bytes).unwrap().message, change);

    let requests = [Request::Group(7), Request::GroupDescription(ALL_GROUPS), Request::GroupFeatures];
    for (request, wanted) in requests.into_iter().zip(7..) {
        let request = Message::MultipartRequest(Box::new(request), false);
        let bytes = codec.encode(7, &request).unwrap();
        assert_eq!((bytes[1], number(&bytes, 12), number(&bytes, 16)), (16, 0x2320, wanted));
        assert_eq!(codec.decode(&bytes).unwrap().message, request);
    }
    let reply = Message::MultipartReply(Box::new(Reply::GroupDescription(vec![group])), false);
    let bytes = codec.encode(7, &reply).unwrap();
    let Message::MultipartReply(read, false) = codec.decode(&bytes).unwrap().message else {
        panic!("another message");
    };
    let Reply::GroupDescription(groups) = *read else { panic!("another reply") };
    assert_eq!(groups[0].to_string(), TEXT);
}

#[test]
fn a_load_of_arps_operation_has_16_bits_on_the_wire() {
    let codec = Codec { table_ids: true, ..Codec::new(Version::V10) };
    let flow = Flow::parse("arp,actions=load:2->NXM_OF_ARP_OP[]").unwrap();
    let message = Message::FlowMod(Box::new(FlowMod::new(FlowCommand::Add, flow)));
    let bytes = codec.encode(7, &message).unwrap();
    // Type of load, the field's place (0) and bits less one, the field (OpenFlow extension `NXAST_REG_LOAD`).
    let load = [0, 7, 0, 15, 0, 0, 0x1e, 2, 0, 0, 0, 0, 0, 0, 0, 2];
    assert!(bytes.ends_with(&load), "{bytes:02x?}");
    assert_eq!(codec.decode(&bytes).unwrap().message, message);
}

#[test]
fn set_field_of_a_whole_tunnel_option_has_no_mask_in_any_version() {
    for version in Version::ALL {
        let mut codec = Codec { table_ids: true, ..Codec::new(version) };
        codec.option_bytes[0] = 4;
        let flow = Flow::parse("actions=set_field:2/0xffffffff->tun_metadata0").unwrap();
        let message = Message::FlowMod(Box::new(FlowMod::new(FlowCommand::Add, flow)));
        let Message::FlowMod(read) = codec.decode(&codec.encode(7, &message).unwrap()).unwrap().message
        else {
            panic!("another message");
        };
        assert!(
            read.flow.to_string().ends_with("set_field:0x2->tun_metadata0"),
            "{version:?}: {}",
            read.flow
        );
    }
}

/// `ovs-ofctl dump-flows BRIDGE nw_src=10.0.0.0/24` of Open vSwitch 4.0 asks for all flows of Ethernet.
#[test]
fn a_request_for_frames_of_ethernet_is_one_for_all() {
    let request = |kind: [u8; 4]| {
        let head = [1, 16, 0, 40, 0, 0, 0, 8, 0xff, 0xff, 0, 0, 0, 0, 0x23, 0x20, 0, 0, 0, 0, 0, 0, 0, 0];
        let asked = [0xff, 0xff, 0, 8, 0xff, 0, 0, 0, 0x80, 0, 0x58, 4];
        Codec::new(Version::V10).decode(&[&head[..], &asked, &kind].concat())
    };
    let Message::MultipartRequest(asked, false) = request([0; 4]).unwrap().message else {
        panic!("another message");
    };
    let Request::Flow(asked) = *asked else { panic!("another request") };
    assert_eq!(asked.wanted, flow::Match::ANY);
    assert!(request([0, 1, 8, 0]).is_err());
}
