//! Flows that frames learn, and that end with the flow that learned them.
use std::time::Duration;

use bridge::{Bridge, Identity};
use controllers::{Change, News, Switch};
use flow::{Action, Field, Flow, Key};
use flow_tables::Limits;
use openflow::{FlowCommand, FlowMod, Version};

fn change(bridge: &mut Bridge, command: FlowCommand, flow: &str) {
    let flow = FlowMod::new(command, Flow::parse(flow).unwrap());
    let mut changes = std::iter::once(Change::Flow(Box::new(flow)));
    bridge.change(&mut changes, Version::V15, Duration::ZERO, &mut News::default()).unwrap();
}

/// Lets a frame from this address learn by the actions of a flow.
fn learn(bridge: &mut Bridge, flow: &str, address: u128) {
    let mut key = Key::ZERO;
    key.set(Field::EthSrc, address);
    for action in Flow::parse(flow).unwrap().actions {
        let Action::Learn(learn) = action else { continue };
        bridge.learn(&learn, &key, Duration::ZERO, &mut News::default());
    }
}

#[test]
fn learned_flows_end_with_the_last_flow_that_learns_them() {
    let actions = "actions=learn(table=5,cookie=0x7,delete_learned,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let [one, two] = [1, 2].map(|priority| format!("table=0,priority={priority},{actions}"));
    let other = "table=0,priority=3,actions=learn(table=5,cookie=0x8,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let mut bridge = Bridge::new(Identity::default(), 1, 7, Limits::default());
    for flow in [one.as_str(), &two, other] {
        change(&mut bridge, FlowCommand::Add, flow);
    }
    (1..=3).for_each(|address| learn(&mut bridge, &one, address));
    learn(&mut bridge, &one, 3);
    learn(&mut bridge, other, 9);
    let learned = |bridge: &Bridge| bridge.tables().all(5).count();
    assert_eq!(learned(&bridge), 4, "one for each address");
    change(&mut bridge, FlowCommand::DeleteStrict, &one);
    assert_eq!(learned(&bridge), 4, "another flow learns them");
    change(&mut bridge, FlowCommand::DeleteStrict, other);
    assert_eq!(learned(&bridge), 4, "its flows stay");
    change(&mut bridge, FlowCommand::DeleteStrict, &two);
    let left: Vec<u64> = bridge.tables().all(5).map(|entry| entry.flow.cookie).collect();
    assert_eq!(left, [8]);
}
