//! Frames that wait for their controller, and continue.
use std::sync::Arc;
use std::time::Duration;

use bridge::{Bridge, Identity};
use controllers::{News, Switch};
use flow::{Controller, Field, Flow, Key, Learn};
use flow_tables::{Connection, Effect, HeaderWindow, Limits, Outcome, Surroundings, Track};
use openflow::{Codec, Failure, FlowCommand, FlowMod, Message, Nicira, PacketIn2, Version};

struct Around;

impl Surroundings for Around {
    fn now_ms(&mut self) -> u64 {
        0
    }
    fn ports(&self) -> &[u16] {
        &[1, 2]
    }
    fn is_live(&self, _: u16) -> bool {
        true
    }
    fn track(&mut self, _: &Track, _: &mut HeaderWindow) -> Connection {
        Connection::default()
    }
    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        true
    }
    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        true
    }
}

fn bridge(flows: &[&str]) -> Bridge {
    let mut bridge = Bridge::new(Identity::default(), 1, 7, Limits::default());
    let changes = flows.iter().map(|flow| {
        let flow = FlowMod::new(FlowCommand::Add, Flow::parse(flow).unwrap());
        controllers::Change::Flow(Box::new(flow))
    });
    bridge.change(&mut { changes }, Version::V15, Duration::ZERO, &mut News::default()).unwrap();
    bridge
}

/// The message with which a controller lets a frame continue, after it went there as bytes.
fn returned(bridge: &Bridge, outcome: &Outcome, frame: &[u8]) -> PacketIn2 {
    let [Effect::PacketIn(packet)] = &outcome.effects[..] else { panic!("{:?}", outcome.effects) };
    let told = bridge.packet_for(packet, frame.to_vec(), frame.len()).unwrap();
    assert_eq!((told.table, told.cookie, &told.userdata[..]), (3, 9, &[0, 2][..]));
    let resume = PacketIn2 {
        data: told.data,
        metadata: Some(told.metadata),
        continuation: told.continuation,
        ..PacketIn2::default()
    };
    let codec = Codec::new(Version::V15);
    let bytes = codec.encode(5, &Message::Nicira(Nicira::Resume(Box::new(resume)))).unwrap();
    match codec.decode(&bytes).unwrap().message {
        Message::Nicira(Nicira::Resume(packet)) => *packet,
        other => panic!("{other:?}"),
    }
}

/// The rest of the actions, of both tables, sees the stack and the registers as they were, and what the controller has
/// written.
#[test]
fn a_frame_that_waits_continues_where_it_was() {
    let mut bridge = bridge(&[
        "table=0,actions=set_field:7->reg1,push:NXM_NX_REG1[],resubmit(,3),output:NXM_NX_REG2[0..15]",
        "table=3,cookie=9,actions=controller(userdata=00.02,pause),pop:NXM_NX_REG2[],resubmit(,4)",
        "table=4,priority=5,reg5=1,in_port=1,actions=output:2",
        "table=4,priority=1,actions=drop",
    ]);
    let (frame, mut outcome) = (vec![2; 60], Outcome::default());
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, 1);
    bridge.tables().execute(&frame, 60, &metadata, &mut Around, &mut outcome);
    assert_eq!(outcome.deliveries.len(), 0, "it waits");
    let mut packet = returned(&bridge, &outcome, &frame);
    packet.metadata.as_mut().unwrap().set(Field::Reg5, 1);
    bridge.resume(&packet, Duration::ZERO).unwrap();
    let sent = bridge.take_sent().remove(0);
    assert_eq!((sent.input(), &sent.data), (1, &frame));
    bridge.tables().resume(&sent.data, 60, sent.metadata.value(), sent.rest, &mut Around, &mut outcome);
    let to: Vec<u16> = outcome.deliveries.iter().map(|delivery| delivery.port).collect();
    assert_eq!(to, [2, 7]);
}

#[test]
fn a_frame_of_another_bridge_or_without_its_rest_does_not_continue() {
    let flow = "table=0,actions=resubmit(,3)";
    let waits = "table=3,cookie=9,actions=controller(userdata=00.02,pause),output:2";
    let (mut bridge, mut other) = (bridge(&[flow, waits]), bridge(&[]));
    let (frame, mut outcome) = (vec![2; 60], Outcome::default());
    bridge.tables().execute(&frame, 60, &Key::ZERO, &mut Around, &mut outcome);
    let packet = returned(&bridge, &outcome, &frame);
    let stale = Err(Failure::ResumeStale);
    assert_eq!(other.resume(&packet, Duration::ZERO), stale);
    let cut = PacketIn2 { full_bytes: Some(61), ..packet.clone() };
    assert_eq!(bridge.resume(&cut, Duration::ZERO), stale);
    let without = PacketIn2 { continuation: None, ..packet.clone() };
    assert_eq!(bridge.resume(&without, Duration::ZERO), stale);
    let garbage = PacketIn2 { continuation: Some(vec![0x81; 64]), ..packet.clone() };
    assert!(bridge.resume(&garbage, Duration::ZERO).is_err());
    assert_eq!(bridge.take_sent(), []);
    assert_eq!(bridge.resume(&packet, Duration::ZERO), Ok(()));
}
