//! Lines of flows, groups and meters, as `ovs-ofctl` writes them.
use controllers::Change;
use flow::{Action, BandKind, Flow, Group, Match, Meter, port};
use openflow::{
    ANY_TABLE, FlowCommand, FlowMod, FlowRequest, GroupCommand, GroupMod, MeterCommand, MeterMod,
};

/// The addition of a line.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each names what it adds")]
pub enum What {
    Flow(Box<Flow>),
    Group(Group),
    Meter(Meter),
}

/// A line, and its number, from 1.
#[derive(Clone, Debug)]
pub struct Line {
    /// The number of the line.
    pub number: usize,
    /// The addition.
    pub what: What,
}

impl What {
    /// The change that makes this addition. A group that is there is replaced; a meter that is there must go first.
    pub fn addition(self) -> Change {
        match self {
            What::Flow(flow) => Change::Flow(Box::new(FlowMod::new(FlowCommand::Add, *flow))),
            What::Group(group) => {
                Change::Group(Box::new(GroupMod { command: GroupCommand::AddOrModify, group, bucket: 0 }))
            }
            What::Meter(meter) => Change::Meter(MeterMod { command: MeterCommand::Add, meter }),
        }
    }
}

/// The flows, groups and meters of a text, one a line; `#` begins a comment. Flows come last, because they name the
/// others.
///
/// # Errors
/// A line is none of these, or has an action that the switch does not have. The error has the number of the line.
pub fn lines(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if !line.is_empty() {
            lines.push(Line { number, what: read(line).map_err(|why| (number, why))? });
        }
    }
    lines.sort_by_key(|line| matches!(line.what, What::Flow(_)));
    Ok(lines)
}

fn read(line: &str) -> Result<What, String> {
    if line.starts_with("group_id=") {
        let group = Group::parse(line).map_err(|error| error.to_string())?;
        group.buckets.iter().try_for_each(|bucket| supported(&bucket.actions))?;
        return Ok(What::Group(group));
    }
    if line.starts_with("meter=") {
        let meter = Meter::parse(line).map_err(|error| error.to_string())?;
        return match meter.bands.iter().all(|band| band.kind == BandKind::Drop) {
            true => Ok(What::Meter(meter)),
            false => Err("a band of type dscp_remark: bands drop frames; write type=drop".to_owned()),
        };
    }
    let flow = Flow::parse(line).map_err(|error| error.to_string())?;
    supported(&flow.actions).map(|()| What::Flow(Box::new(flow)))
}

fn supported(actions: &[Action]) -> Result<(), String> {
    match actions.iter().find_map(missing) {
        Some((action, why)) => Err(format!("action '{action}': {why}; leave it out")),
        None => Ok(()),
    }
}

/// An action that the switch does not have yet, and why.
fn missing(action: &Action) -> Option<(&Action, &'static str)> {
    let why = match action {
        Action::Clone(actions) | Action::WriteActions(actions) => return actions.iter().find_map(missing),
        action if action.output_port() == Some(port::LOCAL) => "the switch has no port of its own",
        Action::OutputCut(..) => "frames are not cut",
        _ => return None,
    };
    Some((action, why))
}

/// Selects flows by the text of a match: `table=1,ip,nw_dst=10.0.0.1`, `cookie=0x5/-1`, `out_port=2`, `priority=9`.
#[derive(Clone, Debug)]
pub struct Selection {
    request: FlowRequest,
    priority: u16,
}

fn number(word: &str, text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        _ if text == "-1" => Some(u64::MAX),
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| format!("'{word}': write a number, as in cookie=0x5/-1"))
}

impl Selection {
    /// Reads a selection; an empty text selects all flows.
    ///
    /// # Errors
    /// A word is unknown, or a value is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut request = FlowRequest::of(ANY_TABLE, Match::ANY);
        let (mut rest, mut has_table) = (Vec::new(), false);
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("cookie", value) => {
                    let (cookie, mask) = value.split_once('/').unwrap_or((value, "-1"));
                    (request.cookie, request.cookie_mask) = (number(word, cookie)?, number(word, mask)?);
                }
                ("out_port", value) => {
                    let port = number(word, value)?;
                    request.out_port = Some(u16::try_from(port).map_err(|_| format!("'{word}': no port"))?);
                }
                (name, _) => {
                    has_table |= name == "table";
                    rest.push(word);
                }
            }
        }
        let head = format!("{} actions=drop", rest.join(","));
        let flow = Flow::parse(&head).map_err(|error| error.to_string())?;
        request.wanted = flow.wanted;
        if has_table {
            request.table = flow.table;
        }
        Ok(Selection { request, priority: flow.priority })
    }

    /// Whether a flow is selected.
    pub fn has(&self, flow: &Flow) -> bool {
        let FlowRequest { table, .. } = self.request;
        (table == ANY_TABLE || table == flow.table) && self.request.has(flow)
    }

    /// The change that deletes the selected flows; if strict, only those with this very match and priority.
    pub fn deletion(&self, strict: bool) -> FlowMod {
        let FlowRequest { table, out_port, cookie, cookie_mask, wanted, .. } = self.request;
        let command = if strict { FlowCommand::DeleteStrict } else { FlowCommand::Delete };
        let flow = Flow { table, priority: self.priority, wanted, ..Flow::default() };
        FlowMod { cookie, cookie_mask, out_port, ..FlowMod::new(command, flow) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(what: &What) -> String {
        match what {
            What::Flow(flow) => flow.to_string(),
            What::Group(group) => format!("group {}", group.id),
            What::Meter(meter) => format!("meter {}", meter.id),
        }
    }

    #[test]
    fn groups_and_meters_have_lines_of_their_own_and_come_first() {
        let text = "priority=2 actions=meter:7,group:9\n\
                    group_id=9,type=select,bucket=output:1,bucket=output:2 # behind its flow\n\
                    meter=7,kbps,bands=type=drop,rate=1000";
        let read: Vec<_> = lines(text).unwrap().iter().map(|line| described(&line.what)).collect();
        assert_eq!(read, ["group 9", "meter 7", "priority=2 actions=meter:7,group:9"]);
    }

    #[test]
    fn lines_are_flows_and_comments() {
        let text =
            "# flows\n\n priority=1 actions=normal # as today\ntable=1,ip,nw_dst=10.0.0.1 actions=output:2\n";
        let read: Vec<_> =
            lines(text).unwrap().into_iter().map(|line| (line.number, described(&line.what))).collect();
        assert_eq!(
            read,
            [
                (3, "priority=1 actions=NORMAL".to_owned()),
                (4, "table=1, ip,nw_dst=10.0.0.1 actions=output:2".to_owned())
            ]
        );
    }

    #[test]
    fn what_is_not_there_yet_is_refused_with_its_line() {
        let refused = [
            ("actions=clone(LOCAL)", "the switch has no port of its own"),
            ("group_id=1,type=all,bucket=LOCAL", "the switch has no port of its own"),
            ("group_id=1,type=any", "group_id=1"),
            ("meter=1,kbps,bands=type=dscp_remark,rate=1,prec_level=1", "bands drop frames"),
            ("actions=LOCAL", "the switch has no port of its own"),
            ("actions=output(port=1,max_len=64)", "frames are not cut"),
            ("in_port=1", "actions are missing"),
            ("nw_dst=10.0.0.1 actions=drop", "the protocol that has this field is missing"),
            ("actions=set_field:80->tcp_dst", "set_field:80->tcp_dst"),
        ];
        let said_otherwise = refused.iter().filter_map(|(line, said)| {
            let (at, why) = lines(&format!("# first\n{line}\n")).unwrap_err();
            (at != 2 || !why.contains(said)).then(|| format!("{line}: line {at}: {why}"))
        });
        assert_eq!(said_otherwise.collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn a_selection_covers_flows_by_match_table_cookie_and_output() {
        let flows = [
            "cookie=0x15,table=1,ip,nw_dst=10.0.0.1 actions=output:2",
            "cookie=0x25,ip actions=output:1",
            "priority=3 actions=drop",
        ];
        let flows = flows.map(|flow| Flow::parse(flow).unwrap());
        let selected = |text: &str| {
            let selection = Selection::read(text).unwrap();
            flows.iter().map(|flow| u8::from(selection.has(flow))).collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("", [1, 1, 1]),
            ("ip", [1, 1, 0]),
            ("table=1", [1, 0, 0]),
            ("table=0", [0, 1, 1]),
            ("cookie=0x5/0xf", [1, 1, 0]),
            ("cookie=0x15", [1, 0, 0]),
            ("ip,out_port=1", [0, 1, 0]),
        ] {
            assert_eq!(selected(text), expected, "{text}");
        }
        for text in ["cookie=x", "out_port=99999", "colour=1"] {
            assert!(Selection::read(text).is_err(), "{text}");
        }
    }
}
