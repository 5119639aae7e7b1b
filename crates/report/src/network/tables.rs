//! Figures of the group `net` as rows of text.

use measure::network::{
    Copies, Figures, FlowRecord, LINE_RATES_GBPS, PathRecord, Rung, cores, figures, rungs,
};
use measure::{Results, Unit};

use super::table::{Table, names, path_name};
use crate::units;
use crate::view::{View, figure};

fn titled(text: &str) -> String {
    units::text(text)
}

/// One work over all paths: rate or round trip, cost, what the last piece adds, loss.
pub(super) fn ladder(view: &View, environment: &str, work: &FlowRecord) -> Table {
    let results = view.results;
    let timed = results.metric(&work.metric).is_some_and(|spec| spec.unit == Unit::Nanos);
    let packet = match (work.datagrams, timed) {
        (true, _) => "packet",
        (false, true) => "transaction",
        (false, false) => "message",
    };
    let mut head: Vec<String> = ["path", "median", "CPU time a", "adds [≥ 95 %]"].map(String::from).to_vec();
    head[2] = format!("CPU time a {packet}");
    if work.datagrams {
        head.push("lost".into());
    }
    let rungs = rungs(results, environment, &work.work);
    let names = names(rungs.iter().map(|rung| rung.path));
    let rows = rungs.iter().zip(names).filter_map(|(rung, name)| {
        let flow = flow_of(results, rung.path, work)?;
        let shown = |id| {
            let (summary, spec) = (view.analysis.summary(id, environment)?, results.metric(id)?);
            Some(match spec.unit {
                Unit::BytesPerSecond => {
                    let spec = measure::MetricSpec { unit: Unit::Other("Mb/s".into()), ..spec.clone() };
                    let summary =
                        measure::compare::Summary { median: summary.median * 8.0 / 1e6, ..summary.clone() };
                    figure(&summary, &spec, rung.path.emulated)
                }
                _ => figure(summary, spec, rung.path.emulated),
            })
        };
        let mut row = vec![name, shown(&flow.metric)?, shown(&flow.cost)?, adds(rung)];
        if work.datagrams {
            let found = figures(&results.network, environment, &flow.metric);
            row.push(found.map_or("–".into(), |found| share(found.lost, found.sent)));
        }
        Some(row)
    });
    Table { title: titled(&work.title), head, rows: rows.collect(), note: None }
}

/// The CPU time of a packet on each path, cheapest first.
pub(super) fn costs(view: &View, environment: &str, work: &FlowRecord) -> Vec<String> {
    let mut found: Vec<(f64, String)> = Vec::new();
    for rung in rungs(view.results, environment, &work.work) {
        let cost = flow_of(view.results, rung.path, work)
            .and_then(|flow| view.analysis.summary(&flow.cost, environment));
        if let Some(cost) = cost {
            let nanos = units::value(cost.median, &Unit::Nanos);
            found.push((cost.median, format!("{} {nanos}", path_name(rung.path))));
        }
    }
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    found.into_iter().map(|(_, words)| words).collect()
}

/// The additional cost of each piece with a shown difference, the most expensive first.
pub(super) fn dearest_pieces(results: &Results, environment: &str, work: &FlowRecord) -> Vec<String> {
    let is_shown = |rung: &Rung| rung.own_interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
    let mut found: Vec<Rung> = rungs(results, environment, &work.work).into_iter().filter(is_shown).collect();
    found.sort_by(|one, other| other.own_ns.unwrap_or(0.0).total_cmp(&one.own_ns.unwrap_or(0.0)));
    let words = |rung: &Rung| Some(format!("{} {}", units::text(rung.path.pieces.last()?), adds(rung)));
    found.iter().filter_map(words).collect()
}

fn flow_of<'a>(results: &'a Results, path: &PathRecord, work: &FlowRecord) -> Option<&'a FlowRecord> {
    results.network.flows.iter().find(|flow| flow.path == path.name && flow.work == work.work)
}

/// The cost that the last part adds, or takes away.
fn adds(rung: &Rung) -> String {
    let Some(own_ns) = rung.own_ns else { return String::new() };
    let signed = |ns: f64| {
        let sign = if ns < 0.0 { "−" } else { "+" };
        format!("{sign}{}", units::value(ns.abs(), &Unit::Nanos))
    };
    let mark = if rung.path.emulated { crate::EMULATED_MARK } else { "" };
    match rung.own_interval {
        None => format!("{}{mark}, too few starts", signed(own_ns)),
        Some((low, high)) if low <= 0.0 && high >= 0.0 => {
            format!("not shown{mark} [{}, {}]", signed(low), signed(high))
        }
        Some((low, high)) => format!("{}{mark} [{}, {}]", signed(own_ns), signed(low), signed(high)),
    }
}

fn share(part: u64, of: u64) -> String {
    if of == 0 {
        return "–".into();
    }
    match 100.0 * part as f64 / of as f64 {
        0.0 => "0".into(),
        percent if percent < 0.01 => "< 0.01 %".into(),
        percent => format!("{percent:.2} %"),
    }
}

/// The CPU time of a packet: by role of a thread and by kind, and counts that need no privileges.
pub(super) fn cpu_time(results: &Results, environment: &str, work: &FlowRecord) -> Vec<Table> {
    let found: Vec<_> = results
        .network
        .paths
        .iter()
        .filter_map(|path| {
            let flow = flow_of(results, path, work)?;
            Some((path, figures(&results.network, environment, &flow.metric)?))
        })
        .collect();
    let mut roles: Vec<&str> = Vec::new();
    for (name, ..) in found.iter().flat_map(|(_, figures)| &figures.roles) {
        if !roles.contains(&name.as_str()) {
            roles.push(name);
        }
    }
    let nanos = |ns: f64| units::value(ns, &Unit::Nanos);
    let mut head = vec!["path".to_owned()];
    head.extend(roles.iter().map(|role| units::text(role)));
    head.push("CPU s a Gb".into());
    let rows = found.iter().map(|(path, figures)| {
        let mut row = vec![path_name(path)];
        row.extend(roles.iter().map(|role| {
            let own = figures.roles.iter().find(|(name, ..)| name == role);
            own.map_or(String::new(), |(_, ns, ..)| nanos(*ns))
        }));
        row.push(units::significant(figures.cpu_s_per_gigabit));
        row
    });
    let by_role = Table {
        title: format!("{}: CPU time a packet by role of a thread", titled(&work.title)),
        head,
        rows: rows.collect(),
        note: Some(
            "What interrupts do on the spot is in the time of whom they interrupt: on paths in one kernel the sender \
             takes most of the way to the receiver's socket.",
        ),
    };
    let kinds = ["user", "system", "irq", "softirq", "guest", "steal"];
    let mut head = vec!["path".to_owned()];
    head.extend(kinds.map(String::from));
    let rows = found.iter().map(|(path, figures)| {
        let kind = |name| figures.kinds.iter().find(|(kind, _)| *kind == name).map_or(0.0, |(_, ns)| *ns);
        std::iter::once(path_name(path)).chain(kinds.map(|name| nanos(kind(name)))).collect()
    });
    let by_kind = Table {
        title: format!("{}: time of the CPUs a packet that arrived, by kind", titled(&work.title)),
        head,
        rows: rows.collect(),
        note: Some(
            "As the kernel counts it, in ticks of 10 ms, for all programs: on a busy machine others are included.",
        ),
    };
    let mut tables = vec![by_role, by_kind, transitions(&found, work)];
    tables.extend(between_guest_and_host(&found, work));
    tables
}

/// Copies, exits, system calls and other transitions, for each packet.
fn transitions(found: &[(&PathRecord, Figures)], work: &FlowRecord) -> Table {
    let head = ["path", "copies", EXITS, "system calls", "wake-ups", "preemptions", "interrupts", "softirqs"];
    let rows = found.iter().map(|(path, figures)| {
        let copies =
            path.copies.map_or("–".into(), |Copies { from_near, from_far }| match from_near == from_far {
                true => from_near.to_string(),
                false => format!("{from_near} out, {from_far} in"),
            });
        let exits = figures.guest.iter().find(|(name, _)| *name == EXITS);
        let exits = exits.map_or(String::new(), |(_, amount)| amount.map_or("–".into(), count));
        let sum = |of: fn(&(String, f64, f64, f64)) -> f64| figures.roles.iter().map(of).sum::<f64>();
        let counts =
            [figures.calls, sum(|role| role.2), sum(|role| role.3), figures.interrupts, figures.softirqs];
        [path_name(path), copies, exits].into_iter().chain(counts.map(count)).collect()
    });
    Table {
        title: format!("{}: copies and transitions a packet", titled(&work.title)),
        head: head.map(String::from).to_vec(),
        rows: rows.collect(),
        note: Some(
            "Copies of the payload follow from the path's devices, from the near end (out) and to it (in); those between a \
             program and its socket are left out. Exits are counted by KVM; – where nothing counts them for an ordinary user. \
             System calls are those of both ends, wake-ups and preemptions those of all threads of the first table: a \
             thread wakes up as often as it went to sleep. Interrupts and softirqs are those of the whole machine.",
        ),
    }
}

/// The name of the count of exits, which is in the table of transitions.
const EXITS: &str = "exits";

/// Other events between guests and their host; `None` if no path has a guest.
fn between_guest_and_host(found: &[(&PathRecord, Figures)], work: &FlowRecord) -> Option<Table> {
    let guests: Vec<_> = found.iter().filter(|(_, figures)| !figures.guest.is_empty()).collect();
    let is_here = |(name, _): &&(&str, Option<f64>)| *name != EXITS;
    let names = guests.first()?.1.guest.iter().filter(is_here).map(|(name, _)| (*name).to_owned());
    let head = std::iter::once("path".to_owned()).chain(names).collect();
    let rows = guests.iter().map(|(path, figures)| {
        let here = figures.guest.iter().filter(is_here);
        let counts = here.map(|(_, amount)| amount.map_or("–".into(), count));
        std::iter::once(path_name(path)).chain(counts).collect()
    });
    Some(Table {
        title: format!("{}: between guest and host, a packet", titled(&work.title)),
        head,
        rows: rows.collect(),
        note: Some(
            "Kicks and calls are counted by the switch; – where nothing counts them for an ordinary user. A frame \
             that came without a kick counts as a suppressed kick, a burst without a call as a suppressed call.",
        ),
    })
}

/// A count for each packet: two digits are enough.
fn count(amount: f64) -> String {
    match amount {
        a if !a.is_finite() => "–".into(),
        0.0 => "0".into(),
        a if a < 0.001 => "< 0.001".into(),
        a if a < 0.1 => format!("{a:.3}"),
        a => format!("{a:.2}"),
    }
}

/// Numbers of cores for line rates.
pub(super) fn line_rates(results: &Results, environment: &str, work: &FlowRecord) -> Table {
    let mut head = vec!["path".to_owned()];
    head.extend(LINE_RATES_GBPS.map(|rate| format!("{rate} Gb/s")));
    let rows = rungs(results, environment, &work.work);
    let rows = rows.iter().map(|rung| {
        let mark = if rung.path.emulated { crate::EMULATED_MARK } else { "" };
        let mut row = vec![path_name(rung.path)];
        row.extend(LINE_RATES_GBPS.map(|rate| {
            format!("{}{mark}", units::significant(cores(rate, work.message_bytes, rung.cost_ns)))
        }));
        row
    });
    Table {
        title: format!("{}: cores to line rate, extrapolated", titled(&work.title)),
        head,
        rows: rows.collect(),
        note: Some(
            "Extrapolated from the CPU time a packet, as if it stayed the same at any rate and on any number of cores: \
             both ends and all between them.",
        ),
    }
}
