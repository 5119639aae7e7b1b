//! Requests of `tautline ctl flows`.
use std::time::Duration;

use control::protocol::{FlowsChange, FlowsChanged};
use controllers::{Change, News, Rejected};
use openflow::Version;
use serde_json::{Value, json};
use switch::View;

use super::switch_bridge::SwitchBridge;
use super::{dump, trace};
use ::bridge::line::{self, Selection, lines};
use ::bridge::replace;

/// A request about the flows of one bridge.
pub struct FlowsRequest {
    /// The bridge's name; `None` for the only one.
    pub bridge: Option<String>,
    /// What is requested.
    pub what: What,
}

/// What is requested.
pub enum What {
    /// Shows the flows that this match selects.
    Dump(String),
    /// Changes flows. The text has a flow or a selection on each line.
    Change(FlowsChange, String),
    /// Follows a frame with these fields, or with these bytes in hexadecimal, through the tables.
    Trace(String, Option<String>),
}

/// Carries out a request, and returns the fields of the answer. The error is a text for the user.
pub fn answer(
    bridge: &mut SwitchBridge,
    what: What,
    switch: &mut View<'_>,
    now: Duration,
) -> Result<Value, String> {
    Ok(match what {
        What::Dump(matching) => {
            switch.count_flows();
            let selection = Selection::read(&matching)?;
            json!({"flows": dump::entries(bridge.flows.bridge.tables(), &selection, now)})
        }
        What::Change(how, text) => json!(change(bridge, how, &text, switch, now)?),
        What::Trace(fields, frame) => {
            let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            json!({"trace": trace::trace(&bridge.flows, &fields, frame.as_deref(), now_ms)?})
        }
    })
}

fn change(
    bridge: &mut SwitchBridge,
    how: FlowsChange,
    text: &str,
    switch: &mut View<'_>,
    now: Duration,
) -> Result<FlowsChanged, String> {
    let of_line = |(number, why): (usize, String)| format!("line {number}: {why}");
    let changes: Vec<Change> = match how {
        FlowsChange::Add => {
            let lines = lines(text).map_err(of_line)?;
            lines.into_iter().map(|line| line.what.addition()).collect()
        }
        FlowsChange::Replace => {
            let (mut others, mut flows) = (Vec::new(), Vec::new());
            for line in lines(text).map_err(of_line)? {
                match line.what {
                    line::What::Flow(flow) => flows.push(*flow),
                    other => others.push(other.addition()),
                }
            }
            others.extend(replace::changes(bridge.flows.bridge.tables(), flows));
            others
        }
        FlowsChange::Delete | FlowsChange::DeleteStrict => {
            let strict = how == FlowsChange::DeleteStrict;
            let deletion = |line| Ok(Change::Flow(Box::new(Selection::read(line)?.deletion(strict))));
            match text.is_empty() {
                true => vec![deletion("")?],
                false => text.lines().map(deletion).collect::<Result<_, String>>()?,
            }
        }
    };
    let mut news = News { all_flows: bridge.controllers.follow_flows(), ..News::default() };
    let before = bridge.flows.bridge.clone();
    let made = bridge.flows.change(&mut changes.iter().cloned(), Version::V15, now, &mut news);
    made.map_err(|Rejected { index, failure }| {
        let flow = changes.get(index).map(described).unwrap_or_default();
        match bridge.flows.ports.any_vlans() {
            true => "a port has VLANs, and the flows forward by other rules: give the port none, and match dl_vlan \
                     in flows"
                .to_owned(),
            false => format!("{flow}: {failure}; no flow was changed"),
        }
    })?;
    if let Err(why) = bridge.flows.publish(switch) {
        bridge.flows.bridge = before;
        return Err(why);
    }
    bridge.controllers.news(&news);
    Ok(FlowsChanged { flows: bridge.flows.bridge.tables().flows() as u64 })
}

fn described(change: &Change) -> String {
    match change {
        Change::Flow(change) => change.flow.to_string(),
        Change::Group(change) => format!("group {}", change.group.id),
        Change::Meter(change) => format!("meter {}", change.meter.id),
        _ => String::new(),
    }
}
