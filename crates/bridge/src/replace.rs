//! The changes that make the flows of a bridge those of a list.
use std::collections::HashMap;

use controllers::Change;
use flow::{Flow, Match};
use flow_tables::Tables;
use openflow::{FlowCommand, FlowMod};

/// The table, priority and match of a flow, which no other flow of the bridge has.
type Place = (u8, u16, Match);

fn place(flow: &Flow) -> Place {
    (flow.table, flow.priority, flow.wanted)
}

/// The changes from the flows that are there to these. A flow that is the same stays, with its counters. Of two flows
/// with the same table, priority and match, the last one counts.
pub fn changes(tables: &Tables, wanted: Vec<Flow>) -> Vec<Change> {
    let mut wanted: HashMap<Place, Flow> = wanted.into_iter().map(|flow| (place(&flow), flow)).collect();
    let mut changes = Vec::new();
    let mut change = |command, flow| changes.push(Change::Flow(Box::new(FlowMod::new(command, flow))));
    for entry in (0..=u8::MAX).flat_map(|table| tables.all(table)) {
        let at = place(&entry.flow);
        match wanted.get(&at) {
            None => change(FlowCommand::DeleteStrict, Flow { actions: Vec::new(), ..entry.flow.clone() }),
            Some(flow) if *flow == entry.flow => drop(wanted.remove(&at)),
            Some(_) => {}
        }
    }
    wanted.into_values().for_each(|flow| change(FlowCommand::Add, flow));
    changes
}
