//! Prints actions as Open vSwitch prints them for OpenFlow 1.5.
use std::fmt::{self, Display, Formatter};

use super::super::value;
use super::{HASH_FIELDS, REASONS, name_of};
use crate::{Action, Controller, Ct, Field, Flow, Learn, LearnSpec, Nat, NatSide, Notation, Observation};
use crate::{Bundle, Sample, Subfield, Timeouts, Zone, port};

impl Display for Subfield {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.header().unwrap_or(self.field.name()))?;
        match (self.start, self.bits) {
            (0, bits) if bits == self.field.bits() => f.write_str("[]"),
            (start, 1) => write!(f, "[{start}]"),
            (start, bits) => write!(f, "[{start}..{}]", start + bits - 1),
        }
    }
}

/// Prints words with commas between them.
pub(in super::super) struct List<'a>(pub &'a [Action]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("drop");
        }
        for (at, action) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            action.fmt(f)?;
        }
        Ok(())
    }
}

fn join(words: &[impl Display]) -> String {
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(".")
}

fn parenthesized(f: &mut Formatter<'_>, name: &str, words: &[String]) -> fmt::Result {
    write!(f, "{name}({})", words.join(","))
}

/// The value of `set_field`. A match writes masked decimal numbers in hexadecimal, an action does not.
fn set_value(field: Field, value: u128, mask: u128) -> String {
    if field.notation() == Notation::Decimal && mask != field.all_bits() {
        return format!("{value}/{mask:#x}");
    }
    value::print(field, value, mask)
}

impl Display for Controller {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plain = Self { max_bytes: self.max_bytes, ..Self::default() };
        if *self == plain {
            return write!(f, "CONTROLLER:{}", self.max_bytes);
        }
        let mut words = Vec::new();
        if self.reason != plain.reason {
            words.push(format!("reason={}", name_of(&REASONS, self.reason)));
        }
        if self.max_bytes != u16::MAX {
            words.push(format!("max_len={}", self.max_bytes));
        }
        if self.id != 0 {
            words.push(format!("id={}", self.id));
        }
        if !self.userdata.is_empty() {
            words.push(format!("userdata={}", bytes(&self.userdata)));
        }
        if self.pause {
            words.push("pause".to_owned());
        }
        if self.meter != 0 {
            words.push(format!("meter_id={}", self.meter));
        }
        parenthesized(f, "controller", &words)
    }
}

impl Display for Nat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(side) = self.side else { return f.write_str("nat") };
        f.write_str(if side == NatSide::Source { "nat(src" } else { "nat(dst" })?;
        if let Some((first, last)) = self.addresses {
            let brackets = self.ports.is_some() || first != last;
            let one = |address: std::net::IpAddr| match address {
                std::net::IpAddr::V6(address) if brackets => format!("[{address}]"),
                address => address.to_string(),
            };
            write!(f, "={}", one(first))?;
            if first != last {
                write!(f, "-{}", one(last))?;
            }
        } else if self.ports.is_some() {
            f.write_str("=")?;
        }
        if let Some((first, last)) = self.ports {
            write!(f, ":{first}")?;
            if first != last {
                write!(f, "-{last}")?;
            }
        }
        for (is, name) in [(self.persistent, "persistent"), (self.hash, "hash"), (self.random, "random")] {
            if is {
                write!(f, ",{name}")?;
            }
        }
        f.write_str(")")
    }
}

impl Display for Ct {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if self.commit {
            words.push("commit".to_owned());
        }
        if self.force {
            words.push("force".to_owned());
        }
        if let Some(table) = self.table {
            words.push(format!("table={table}"));
        }
        match self.zone {
            Zone::Number(0) => {}
            Zone::Number(zone) => words.push(format!("zone={zone}")),
            Zone::Of(bits) => words.push(format!("zone={bits}")),
        }
        words.extend(self.nat.as_ref().map(ToString::to_string));
        if !self.exec.is_empty() {
            words.push(format!("exec({})", join(&self.exec)));
        }
        match self.helper {
            0 => {}
            21 => words.push("alg=ftp".to_owned()),
            69 => words.push("alg=tftp".to_owned()),
            other => words.push(format!("alg={other}")),
        }
        parenthesized(f, "ct", &words)
    }
}

impl Display for LearnSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::MatchValue(bits, value) if bits.bits == bits.field.bits() => {
                write!(f, "{}={}", bits.field.name(), value::print(bits.field, *value, bits.mask()))
            }
            Self::MatchValue(bits, value) => write!(f, "{bits}={value:#x}"),
            Self::MatchField(wanted, of) if wanted == of => wanted.fmt(f),
            Self::MatchField(wanted, of) => write!(f, "{wanted}={of}"),
            Self::LoadValue(value, bits) => write!(f, "load:{value:#x}->{bits}"),
            Self::LoadField(of, bits) => write!(f, "load:{of}->{bits}"),
            Self::Output(bits) => write!(f, "output:{bits}"),
        }
    }
}

impl Display for Learn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut words = vec![format!("table={}", self.table)];
        for (name, seconds) in [
            ("idle_timeout", self.timeouts.idle),
            ("hard_timeout", self.timeouts.hard),
            ("fin_idle_timeout", self.fin_timeouts.0),
            ("fin_hard_timeout", self.fin_timeouts.1),
        ] {
            if seconds != 0 {
                words.push(format!("{name}={seconds}"));
            }
        }
        if self.priority != Flow::DEFAULT_PRIORITY {
            words.push(format!("priority={}", self.priority));
        }
        if self.send_removed {
            words.push("send_flow_rem".to_owned());
        }
        if self.delete_learned {
            words.push("delete_learned".to_owned());
        }
        if self.cookie != 0 {
            words.push(format!("cookie={:#x}", self.cookie));
        }
        if self.limit != 0 {
            words.push(format!("limit={}", self.limit));
        }
        words.extend(self.result.map(|bits| format!("result_dst={bits}")));
        words.extend(self.specs.iter().map(ToString::to_string));
        parenthesized(f, "learn", &words)
    }
}

impl Display for Bundle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = self.members.iter().map(|port| value::print_port((*port).into())).collect();
        let name = if self.load.is_some() { "bundle_load" } else { "bundle" };
        let (fields, algorithm) =
            (name_of(&HASH_FIELDS, self.fields), if self.by_weight { "hrw" } else { "active_backup" });
        write!(f, "{name}({fields},{},{algorithm},ofport,", self.basis)?;
        if let Some(bits) = self.load {
            write!(f, "{bits},")?;
        }
        write!(f, "members:{})", members.join(","))
    }
}

impl Display for Observation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Of(bits) => bits.fmt(f),
        }
    }
}

impl Display for Sample {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sample(probability={},collector_set_id={},obs_domain_id={},obs_point_id={}",
            self.probability, self.collector_set, self.domain, self.point
        )?;
        if let Some(port) = self.port {
            write!(f, ",sampling_port={}", value::print_port(port.into()))?;
        }
        match self.egress {
            None => f.write_str(")"),
            Some(egress) => f.write_str(if egress { ",egress)" } else { ",ingress)" }),
        }
    }
}

fn resubmit(f: &mut Formatter<'_>, input: Option<u16>, table: Option<u8>, original: bool) -> fmt::Result {
    let name = input.map(|port| value::print_port(port.into())).unwrap_or_default();
    match (table, original) {
        (None, false) => write!(f, "resubmit:{name}"),
        (None, true) => write!(f, "resubmit({name},,ct)"),
        (Some(table), false) => write!(f, "resubmit({name},{table})"),
        (Some(table), true) => write!(f, "resubmit({name},{table},ct)"),
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let port = |port: u16| value::print_port(port.into());
        match self {
            Self::Output(to) | Self::OutputSized(to, _) if *to < port::FIRST_RESERVED => {
                write!(f, "output:{to}")
            }
            Self::Output(to) | Self::OutputSized(to, _) => f.write_str(&port(*to)),
            Self::OutputCut(to, bytes) => write!(f, "output(port={},max_len={bytes})", port(*to)),
            Self::OutputField(bits) => write!(f, "output:{bits}"),
            Self::Controller(controller) => controller.fmt(f),
            Self::SetQueue(queue) => write!(f, "set_queue:{queue}"),
            Self::PopQueue => f.write_str("pop_queue"),
            Self::Group(group) => write!(f, "group:{group}"),
            Self::Meter(meter) => write!(f, "meter:{meter}"),
            Self::Resubmit { port, table, original } => resubmit(f, *port, *table, *original),
            Self::SetField(field, value, mask) => {
                write!(f, "set_field:{}->{}", set_value(*field, *value, *mask), field.name())
            }
            Self::SetOwn(Field::NwTtl, ttl) => write!(f, "mod_nw_ttl:{ttl}"),
            Self::SetOwn(field, value) => write!(f, "set_{}({value})", field.name()),
            Self::Move(from, to) => write!(f, "move:{from}->{to}"),
            Self::Push(bits) => write!(f, "push:{bits}"),
            Self::Pop(bits) => write!(f, "pop:{bits}"),
            Self::PushVlan(kind) => write!(f, "push_vlan:{kind:#06x}"),
            Self::PushMpls(kind) => write!(f, "push_mpls:{kind:#06x}"),
            Self::PopMpls(kind) => write!(f, "pop_mpls:{kind:#06x}"),
            Self::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Self::PopVlan => f.write_str("pop_vlan"),
            Self::ModVlanVid(number) => write!(f, "mod_vlan_vid:{number}"),
            Self::ModVlanPcp(priority) => write!(f, "mod_vlan_pcp:{priority}"),
            Self::DecTtl(None) => f.write_str("dec_ttl"),
            Self::DecTtl(Some(ids)) => write!(f, "dec_ttl({})", join(ids)),
            Self::Clone(actions) => write!(f, "clone({})", List(actions)),
            Self::Conjunction { id, clause, of } => write!(f, "conjunction({id},{}/{of})", clause + 1),
            Self::FinTimeout(Timeouts { idle, hard }) => {
                let named = [("idle_timeout", idle), ("hard_timeout", hard)];
                let words = named.iter().filter(|(_, seconds)| **seconds != 0);
                let words: Vec<_> = words.map(|(name, seconds)| format!("{name}={seconds}")).collect();
                write!(f, "fin_timeout({})", words.join(","))
            }
            Self::Learn(learn) => learn.fmt(f),
            Self::Note(note) => write!(f, "note:{}", bytes(note)),
            Self::Ct(ct) => ct.fmt(f),
            Self::CtClear => f.write_str("ct_clear"),
            Self::CheckPacketLarger(bytes, bit) => write!(f, "check_pkt_larger({bytes})->{bit}"),
            Self::Bundle(bundle) => bundle.fmt(f),
            Self::Sample(sample) => sample.fmt(f),
            Self::Exit => f.write_str("exit"),
            Self::WriteActions(actions) => write!(f, "write_actions({})", List(actions)),
            Self::ClearActions => f.write_str("clear_actions"),
            Self::WriteMetadata(value, u64::MAX) => write!(f, "write_metadata:{value:#x}"),
            Self::WriteMetadata(value, mask) => write!(f, "write_metadata:{value:#x}/{mask:#x}"),
            Self::GotoTable(table) => write!(f, "goto_table:{table}"),
        }
    }
}
