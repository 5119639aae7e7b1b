//! The file of `--flows`: a flow, a group or a meter on each line, as `ovs-ofctl add-flows`, `add-groups` and `add-meter`
//! read it.
use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::BuildHasher;
use std::path::Path;

use flow::{Action, BandKind, Field, Flow, Group, Meter, Timeouts, port};
use flow_tables::{Change, Limits, Tables};

use crate::configuration_file::read_up_to;
use crate::error::Invalid;

/// Most bytes of a file: more than a million of OVN's flows take.
const MOST_BYTES: u64 = 256 << 20;

/// VLAN tags that are read, as many as Open vSwitch reads if nothing else is said (`other_config:vlan-limit`).
const MAX_TAGS: u8 = 1;

/// Reads the flows of a file into tables.
///
/// # Errors
/// The file cannot be read; or a line is no flow, group or meter, has an action that is not there yet, names a group or
/// meter that the file does not have, or contradicts another one.
pub fn read(path: &Path) -> Result<Tables, Invalid> {
    let wrong = |why: &dyn Display| Invalid(format!("--flows {}: {why}", path.display()));
    let text = read_up_to(path, MOST_BYTES)
        .map_err(|error| wrong(&format_args!("{error}; name a regular file that can be read")))?;
    parse(&text).map_err(|(line, why)| wrong(&format_args!("line {line}: {why}")))
}

/// Tables of the flows, groups and meters in a text; an error has the number of its line.
fn parse(text: &str) -> Result<Tables, (usize, String)> {
    let mut tables = Tables::new(MAX_TAGS, RandomState::new().hash_one(0), Limits::default());
    let lines = (1..).zip(text.lines());
    let lines = lines.map(|(at, line)| (at, line.split_once('#').map_or(line, |(before, _)| before).trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty());
    // A flow may stand before its group or meter.
    let (others, flows): (Vec<_>, Vec<_>) = lines.partition(|(_, line)| is_group(line) || is_meter(line));
    for (at, line) in others {
        let added = if is_group(line) { add_group(&mut tables, line) } else { add_meter(&mut tables, line) };
        added.map_err(|why| (at, why))?;
    }
    for (at, line) in flows {
        add(&mut tables, line).map_err(|why| (at, why))?;
    }
    Ok(tables)
}

fn is_group(line: &str) -> bool {
    line.starts_with("group_id=")
}

fn is_meter(line: &str) -> bool {
    line.starts_with("meter=")
}

fn add_group(tables: &mut Tables, line: &str) -> Result<(), String> {
    let group = Group::parse(line).map_err(|error| error.to_string())?;
    group.buckets.iter().try_for_each(|bucket| supported(&bucket.actions))?;
    tables.set_group(group).map_err(|error| error.to_string())
}

fn add_meter(tables: &mut Tables, line: &str) -> Result<(), String> {
    let meter = Meter::parse(line).map_err(|error| error.to_string())?;
    if meter.bands.iter().any(|band| band.kind != BandKind::Drop) {
        return Err("a band of type dscp_remark: bands drop frames; write type=drop".to_owned());
    }
    tables.set_meter(meter, 0).map_err(|error| error.to_string())
}

fn add(tables: &mut Tables, line: &str) -> Result<(), String> {
    let flow = Flow::parse(line).map_err(|error| error.to_string())?;
    if flow.timeouts != Timeouts::default() {
        return Err("idle_timeout and hard_timeout: flows do not end by time yet; leave them out".to_owned());
    }
    supported(&flow.actions)?;
    if let Some(action) = flow.actions.iter().find_map(|action| unknown(tables, action)) {
        return Err(format!("action '{action}': the file does not have it; add its line"));
    }
    tables.change(Change::Add(flow), 0).map_err(|error| error.to_string())
}

/// An action that names a group or meter which the tables do not have.
fn unknown<'a>(tables: &Tables, action: &'a Action) -> Option<&'a Action> {
    match action {
        Action::Clone(inner) | Action::WriteActions(inner) => {
            inner.iter().find_map(|action| unknown(tables, action))
        }
        Action::Group(group) if tables.group(*group).is_none() => Some(action),
        Action::Meter(meter) if tables.meter(*meter).is_none() => Some(action),
        _ => None,
    }
}

fn supported(actions: &[Action]) -> Result<(), String> {
    match actions.iter().find_map(missing) {
        Some((action, why)) => Err(format!("action '{action}': {why}; leave it out")),
        None => Ok(()),
    }
}

/// An action that the switch does not have yet, and why.
fn missing(action: &Action) -> Option<(&Action, &'static str)> {
    let of_tunnel = |field: &Field| field.name().starts_with("tun_");
    let why = match action {
        Action::Clone(actions) | Action::WriteActions(actions) => return actions.iter().find_map(missing),
        Action::Controller(_) | Action::Output(port::CONTROLLER) => "there is no controller",
        Action::Output(port::LOCAL) => "the switch has no port of its own",
        Action::OutputCut(..) => "frames are not cut",
        Action::Ct(_) | Action::Resubmit { original: true, .. } => "connections are not tracked",
        Action::Learn(_) => "frames make no flows",
        Action::Sample(_) => "there are no samples",
        Action::SetField(field, ..) if of_tunnel(field) => "there are no tunnels",
        Action::Move(_, to) | Action::Pop(to) if of_tunnel(&to.field) => "there are no tunnels",
        _ => return None,
    };
    Some((action, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_flows_and_comments() {
        let text =
            "# flows\n\n priority=1 actions=normal # as today\ntable=1,ip,nw_dst=10.0.0.1 actions=output:2\n";
        let tables = parse(text).unwrap();
        assert_eq!(
            [0, 1].map(|table| tables.entries(table)[0].flow.to_string()),
            ["priority=1 actions=NORMAL", "table=1, ip,nw_dst=10.0.0.1 actions=output:2"]
        );
    }

    #[test]
    fn groups_and_meters_have_lines_of_their_own() {
        let text = "priority=2 actions=meter:7,group:9\n\
                    group_id=9,type=select,bucket=output:1,bucket=output:2 # behind its flow\n\
                    meter=7,kbps,bands=type=drop,rate=1000";
        let tables = parse(text).unwrap();
        assert_eq!((tables.flows(), tables.groups().count(), tables.meters().count()), (1, 1, 1));
    }

    #[test]
    fn what_is_not_there_yet_is_refused_with_its_line() {
        let refused = [
            ("ip,actions=ct(table=1)", "action 'ct(table=1)': connections are not tracked"),
            ("actions=controller", "there is no controller"),
            ("actions=clone(controller)", "there is no controller"),
            ("actions=write_actions(controller)", "there is no controller"),
            ("actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])", "frames make no flows"),
            ("actions=set_field:5->tun_id,output:1", "there are no tunnels"),
            ("actions=move:NXM_NX_REG0[]->NXM_NX_TUN_ID[0..31]", "there are no tunnels"),
            ("actions=group:1", "action 'group:1': the file does not have it"),
            ("actions=clone(group:1)", "action 'group:1': the file does not have it"),
            ("actions=meter:1", "action 'meter:1': the file does not have it"),
            ("group_id=1,type=all,bucket=controller", "there is no controller"),
            ("group_id=1,type=any", "group_id=1"),
            ("meter=1,kbps,bands=type=dscp_remark,rate=1,prec_level=1", "bands drop frames"),
            ("actions=LOCAL", "the switch has no port of its own"),
            ("actions=output(port=1,max_len=64)", "frames are not cut"),
            ("idle_timeout=5,actions=drop", "flows do not end by time yet"),
            ("in_port=1", "actions are missing"),
            ("nw_dst=10.0.0.1 actions=drop", "the protocol that has this field is missing"),
            ("actions=set_field:80->tcp_dst", "set_field:80->tcp_dst"),
        ];
        let said_otherwise = refused.iter().filter_map(|(line, said)| {
            let (at, why) = parse(&format!("# first\n{line}\n")).unwrap_err();
            (at != 2 || !why.contains(said)).then(|| format!("{line}: line {at}: {why}"))
        });
        assert_eq!(said_otherwise.collect::<Vec<_>>(), Vec::<String>::new());
    }
}
