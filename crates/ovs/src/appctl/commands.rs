//! The commands by name, as in ovs-vswitchd(8).

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::coverage::totals;
use super::room::Room;
use super::{bonds, connections, datapath, fdb, flows, limits, pmd, tunnels};

/// The function of a command, which gets its arguments.
type Answer = fn(&mut Room, &[&str]) -> Result<String, String>;

struct Command {
    name: &'static str,
    /// The command's arguments, as `list-commands` shows them.
    usage: &'static str,
    /// How many arguments the command takes.
    arguments: RangeInclusive<usize>,
    answer: Answer,
}

const fn command(
    name: &'static str,
    usage: &'static str,
    arguments: RangeInclusive<usize>,
    answer: Answer,
) -> Command {
    Command { name, usage, arguments, answer }
}

/// The arguments of `dpctl/flush-conntrack`.
const FLUSHED: &str = "[dp] [zone=N] [mark=X[/M]] [labels=Y[/N]] [ct-orig-tuple [ct-reply-tuple]]";

/// By name.
const COMMANDS: [Command; 46] = [
    command("bfd/show", "[interface]", 0..=1, tunnels::sessions),
    command("bond/list", "", 0..=0, bonds::list),
    command("bond/show", "[port]", 0..=1, bonds::show),
    command("bridge/dump-flows", "bridge", 1..=1, flows::dump),
    command("cfm/show", "[interface]", 0..=1, nothing),
    command("coverage/read-counter", "COUNTER", 1..=1, event),
    command("coverage/show", "", 0..=0, events),
    command("dpctl/ct-del-limits", "[dp] [default] [zone=N1[,N2]...]", 1..=3, limits::delete),
    command("dpctl/ct-get-limits", "[dp] [zone=N1[,N2]...]", 0..=2, limits::get),
    command("dpctl/ct-get-maxconns", "[dp]", 0..=1, limits::most),
    command("dpctl/ct-get-nconns", "[dp]", 0..=1, limits::present),
    command("dpctl/ct-set-limits", "[dp] [default=L] [zone=N,limit=L]...", 1..=1024, limits::set),
    command("dpctl/ct-stats-show", "[-m] [dp] [zone=N]", 0..=3, limits::statistics),
    command("dpctl/dump-conntrack", "[-m] [-s] [dp] [zone=N]", 0..=4, connections::dump),
    command("dpctl/dump-dps", "", 0..=0, |_, _| Ok(format!("{}\n", datapath::NAME))),
    command("dpctl/dump-flows", "[-m] [--names] [dp] [filter=..] [type=..] [pmd=..]", 0..=8, flows::cached),
    command("dpctl/flush-conntrack", FLUSHED, 0..=6, connections::flush),
    command("dpctl/show", "[-s] [dp...]", 0..=8, datapath::show),
    command("dpif-netdev/pmd-perf-show", "[-nh] [-pmd core] [dp]", 0..=8, pmd::performance),
    command("dpif-netdev/pmd-rxq-show", "[-pmd core] [-secs secs] [dp]", 0..=8, pmd::queues_of_workers),
    command("dpif-netdev/pmd-stats-show", "[-pmd core] [dp]", 0..=8, pmd::statistics),
    command("dpif/dump-dps", "", 0..=0, |_, _| Ok(format!("{}\n", datapath::NAME))),
    command("dpif/dump-flows", "[-m] [--names | --no-names] bridge", 1..=4, flows::cached_of_bridge),
    command("dpif/show", "", 0..=0, datapath::bridges),
    command("dpif/show-dp-features", "bridge", 1..=1, datapath::features),
    command("exit", "[--cleanup]", 0..=1, exit),
    command("fdb/add", "bridge port vlan mac", 4..=4, fdb::add),
    command("fdb/del", "bridge vlan mac", 3..=3, fdb::delete),
    command("fdb/flush", "[bridge]", 0..=1, fdb::flush),
    command("fdb/show", "bridge", 1..=1, fdb::show),
    command("fdb/stats-show", "bridge", 1..=1, fdb::statistics),
    command("lacp/show", "[port]", 0..=1, nothing),
    command("list-commands", "", 0..=0, |_, _| Ok(list())),
    command("memory/show", "", 0..=0, memory),
    command("ofproto/list", "", 0..=0, |room, _| {
        Ok(room.bridges().into_iter().map(|bridge| bridge.name + "\n").collect())
    }),
    command("ofproto/trace", "[--names] bridge flow [packet]", 2..=16, flows::trace),
    command("ovs/route/lookup", "ip_addr", 1..=1, tunnels::lookup),
    command("ovs/route/show", "", 0..=0, tunnels::routes),
    command("tnl/arp/show", "", 0..=0, tunnels::neighbours),
    command("tnl/neigh/show", "", 0..=0, tunnels::neighbours),
    command("tnl/ports/show", "", 0..=0, tunnels::ports),
    command("upcall/show", "", 0..=0, flows::upcalls),
    command("version", "", 0..=0, |_, _| {
        Ok(concat!("ovs-vswitchd (Tautline) ", env!("CARGO_PKG_VERSION"), "\n").to_owned())
    }),
    command("vlog/list", "", 0..=0, |_, _| Ok(levels())),
    // The switch logs to its standard error, which its service manager keeps.
    command("vlog/reopen", "", 0..=0, |_, _| Ok(String::new())),
    command("vlog/set", "{spec | PATTERN:destination:pattern}", 0..=8, set_level),
];

/// Carries out a command.
///
/// # Errors
/// The command does not exist, has too few or too many arguments, or fails. The error is a text for the user.
pub fn carry_out(room: &mut Room, name: &str, arguments: &[&str]) -> Result<String, String> {
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        let shown: String = name.chars().take(64).filter(|letter| !letter.is_control()).collect();
        return Err(format!(
            "\"{shown}\" is not a valid command of this switch (list-commands shows which are)\n"
        ));
    };
    let (least, most) = (command.arguments.start(), command.arguments.end());
    if arguments.len() < *least {
        return Err(format!("\"{name}\" command requires at least {least} arguments\n"));
    }
    if arguments.len() > *most {
        return Err(format!("\"{name}\" command takes at most {most} arguments\n"));
    }
    (command.answer)(room, arguments)
}

/// The answer to a command about what no port has.
fn nothing(_: &mut Room, _: &[&str]) -> Result<String, String> {
    Ok(String::new())
}

fn list() -> String {
    let mut said = "The available commands are:\n".to_owned();
    for Command { name, usage, .. } in &COMMANDS {
        let _ = writeln!(said, "  {name:<23} {usage}");
    }
    said
}

/// A line for each event that has happened.
fn events(room: &mut Room, _: &[&str]) -> Result<String, String> {
    Ok(room.coverage.show(totals(&room.counters()?)))
}

/// How often one event has happened.
fn event(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let totals = totals(&room.counters()?);
    let total = arguments.first().and_then(|name| totals.get(*name));
    let none = || "no such counter: coverage/show has their names\n".to_owned();
    total.map(|total| format!("{total}\n")).ok_or_else(none)
}

fn exit(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    if arguments.iter().any(|word| *word != "--cleanup") {
        return Err("exit takes nothing but --cleanup\n".to_owned());
    }
    room.ends = true;
    Ok(String::new())
}

/// Pairs of a name and a count.
fn memory(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let counters = room.counters()?;
    let count = |table: &serde_json::Value| table.as_array().map_or(0, Vec::len);
    let addresses = counters["table"]["addresses"].as_u64().unwrap_or(0);
    let (ports, workers) = (count(&counters["ports"]), count(&counters["workers"]));
    Ok(format!("mac-entries:{addresses} ports:{ports} workers:{workers}\n"))
}

/// The table of ovs-vswitchd's modules has one: this program.
fn levels() -> String {
    let row =
        |cells: [&str; 4]| format!("{:<15} {:>8} {:>10} {:>10}\n", cells[0], cells[1], cells[2], cells[3]);
    row(["", "console", "syslog", "file"])
        + &row(["", "-------", "------", "------"])
        + &row(["tautline", "INFO", "OFF", "OFF"])
}

fn set_level(_: &mut Room, _: &[&str]) -> Result<String, String> {
    Err("the switch logs at one level, to its standard error: filter where that is kept (journalctl -p)\n"
        .to_owned())
}
