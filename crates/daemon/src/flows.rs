//! The file of `--flows`: a flow on each line, as `ovs-ofctl add-flows` reads it.
use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::BuildHasher;
use std::path::Path;

use flow::{Action, Field, Flow, Timeouts, port};
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
/// The file cannot be read, or a line is no flow, has an action that is not there yet, or contradicts another one.
pub fn read(path: &Path) -> Result<Tables, Invalid> {
    let wrong = |why: &dyn Display| Invalid(format!("--flows {}: {why}", path.display()));
    let text = read_up_to(path, MOST_BYTES)
        .map_err(|error| wrong(&format_args!("{error}; name a regular file that can be read")))?;
    parse(&text).map_err(|(line, why)| wrong(&format_args!("line {line}: {why}")))
}

/// Tables of the flows in a text; an error has the number of its line.
fn parse(text: &str) -> Result<Tables, (usize, String)> {
    let mut tables = Tables::new(MAX_TAGS, RandomState::new().hash_one(0), Limits::default());
    for (at, line) in (1..).zip(text.lines()) {
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if !line.is_empty() {
            add(&mut tables, line).map_err(|why| (at, why))?;
        }
    }
    Ok(tables)
}

fn add(tables: &mut Tables, line: &str) -> Result<(), String> {
    let flow = Flow::parse(line).map_err(|error| error.to_string())?;
    if flow.timeouts != Timeouts::default() {
        return Err("idle_timeout and hard_timeout: flows do not end by time yet; leave them out".to_owned());
    }
    if let Some((action, why)) = flow.actions.iter().find_map(missing) {
        return Err(format!("action '{action}': {why}; leave it out"));
    }
    tables.change(Change::Add(flow), 0).map_err(|error| error.to_string())
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
        Action::Group(_) | Action::Bundle(_) => "there are no groups",
        Action::Meter(_) => "there are no meters",
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
    fn what_is_not_there_yet_is_refused_with_its_line() {
        let refused = [
            ("ip,actions=ct(table=1)", "action 'ct(table=1)': connections are not tracked"),
            ("actions=controller", "there is no controller"),
            ("actions=clone(controller)", "there is no controller"),
            ("actions=write_actions(controller)", "there is no controller"),
            ("actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])", "frames make no flows"),
            ("actions=set_field:5->tun_id,output:1", "there are no tunnels"),
            ("actions=move:NXM_NX_REG0[]->NXM_NX_TUN_ID[0..31]", "there are no tunnels"),
            ("actions=group:1", "there are no groups"),
            ("actions=meter:1", "there are no meters"),
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
