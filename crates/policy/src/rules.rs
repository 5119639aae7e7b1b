//! Rules as flows.
use std::collections::BTreeMap;
use std::fmt::Write;

use crate::file::Rule;
use crate::mistake::Wrong;
use crate::values::{Prefix, Version, has_ports, ports, prefix, protocol};

/// Keeps a connection with the mark in `reg1`, and delivers its frame.
pub const KEEP: &str = "ct(commit,zone=1,exec(move:NXM_NX_REG1[]->NXM_NX_CT_MARK[])),resubmit(,4)";
/// The most flows that a policy may become.
const MOST_FLOWS: usize = 1 << 18;

/// The direction in which a rule's connections begin, as its port sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    In,
    Out,
}

impl Way {
    fn table(self) -> u8 {
        match self {
            Way::Out => 2,
            Way::In => 3,
        }
    }

    /// The actions for an allowed connection.
    fn allow(self) -> &'static str {
        match self {
            Way::Out => "resubmit(,3)",
            Way::In => KEEP,
        }
    }
}

impl Version {
    fn name(self) -> &'static str {
        if self == Version::V4 { "ip" } else { "ipv6" }
    }

    /// The field of the other end of connections.
    fn field(self, way: Way) -> &'static str {
        match (self, way) {
            (Version::V4, Way::In) => "nw_src",
            (Version::V4, Way::Out) => "nw_dst",
            (Version::V6, Way::In) => "ipv6_src",
            (Version::V6, Way::Out) => "ipv6_dst",
        }
    }
}

/// The sets of addresses by name.
pub struct Sets(pub BTreeMap<String, Vec<Prefix>>);

/// Flows that are being written.
#[derive(Default)]
pub struct Flows {
    text: String,
    count: usize,
    conjunctions: u32,
    /// The actions of flows with the same match.
    shared: BTreeMap<String, Vec<String>>,
}

impl Flows {
    pub fn add(&mut self, flow: &str) {
        self.text.push_str(flow);
        self.text.push('\n');
        self.count += 1;
    }

    /// All flows, one a line.
    pub fn finish(mut self) -> String {
        for (flow, actions) in std::mem::take(&mut self.shared) {
            self.add(&format!("{flow} actions={}", actions.join(",")));
        }
        self.text
    }

    /// Allows the connections of a rule to the port that `who` matches.
    pub fn rule(&mut self, way: Way, who: &str, rule: &Rule, sets: &Sets) -> Result<(), Wrong> {
        let numbers = rule.protocol.as_ref().map(protocol).transpose()?;
        let ports = match &rule.ports {
            None => Vec::new(),
            Some(value) if numbers.is_some_and(|[number, _]| has_ports(number)) => ports(value)?,
            Some(value) => {
                let what =
                    "ports without a protocol that has them; write protocol = \"tcp\", \"udp\" or \"sctp\"";
                return Err(Wrong::new(value.span(), what));
            }
        };
        let one;
        let peers: Option<&[Prefix]> = match &rule.with {
            None => None,
            Some(with) => Some(match sets.0.get(with.as_ref()) {
                Some(set) => set,
                None => {
                    one = [prefix(with)?];
                    &one
                }
            }),
        };
        for (place, version) in [Version::V4, Version::V6].into_iter().enumerate() {
            let own = |prefixes: &[Prefix]| -> Vec<String> {
                let own = prefixes.iter().filter(|prefix| prefix.version == version);
                own.map(|prefix| format!("{}={}", version.field(way), prefix.text)).collect()
            };
            let peers = peers.map(own);
            // A rule for addresses of the other version alone, or for an empty set, allows nothing here.
            if peers.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let mut of = format!("{},{who}", version.name());
            if let Some(numbers) = numbers {
                _ = write!(of, ",ct_nw_proto={}", numbers[place]);
            }
            let ports = ports.iter().map(|port| format!("ct_tp_dst={port}")).collect();
            self.combined(way, &of, peers.unwrap_or_default(), ports);
        }
        match self.count + self.shared.len() > MOST_FLOWS {
            true => {
                let at = [&rule.with, &rule.ports, &rule.protocol].into_iter().flatten().next();
                let what =
                    format!("the rules become more than {MOST_FLOWS} flows; use fewer addresses or ports");
                Err(Wrong::new(at.map(|value| value.span()).unwrap_or_default(), what))
            }
            false => Ok(()),
        }
    }

    /// Each of some addresses with each of some ports; without addresses or ports, any.
    fn combined(&mut self, way: Way, of: &str, peers: Vec<String>, ports: Vec<String>) {
        let (table, allow) = (way.table(), way.allow());
        if peers.len() > 1 && ports.len() > 1 {
            self.conjunctions += 1;
            let id = self.conjunctions;
            for (part, values) in [(1, peers), (2, ports)] {
                for value in values {
                    let flow = format!("table={table},priority=10,{of},{value}");
                    self.shared.entry(flow).or_default().push(format!("conjunction({id},{part}/2)"));
                }
            }
            return self.add(&format!("table={table},priority=10,{of},conj_id={id} actions={allow}"));
        }
        let or_any = |values: Vec<String>| match values.is_empty() {
            true => vec![String::new()],
            false => values.into_iter().map(|value| format!(",{value}")).collect(),
        };
        let ports = or_any(ports);
        for peer in or_any(peers) {
            for port in &ports {
                self.add(&format!("table={table},priority=20,{of}{peer}{port} actions={allow}"));
            }
        }
    }
}
