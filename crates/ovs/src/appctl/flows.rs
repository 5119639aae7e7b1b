//! The commands about flows: `ofproto/trace`, `bridge/dump-flows`, `dpctl/dump-flows`, `dpif/dump-flows`, `upcall/show`.

use std::fmt::Write as _;

use control::Request;

use super::bridge::Served;
use super::datapath::{self, is_datapath};
use super::room::Room;

/// Returns a bridge by its name.
fn bridge(room: &Room, name: Option<&&str>) -> Result<Served, String> {
    let found = room.bridges().into_iter().find(|bridge| name == Some(&bridge.name.as_str()));
    found.ok_or_else(|| "no such bridge\n".to_owned())
}

/// A flow in which the input port has its number in place of its name.
fn numbered(bridge: &Served, flow: &str) -> Result<String, String> {
    let part = |part: &str| {
        let Some(name) = part.trim().strip_prefix("in_port=") else { return Ok(part.to_owned()) };
        let name = name.trim_matches('"');
        let is_number = name.parse::<u32>().is_ok() || name.chars().all(|letter| letter.is_ascii_uppercase());
        let port = bridge.ports.iter().find(|port| port.name == name);
        match port {
            Some(port) => Ok(format!("in_port={}", port.number)),
            None if name == bridge.name => Ok("in_port=LOCAL".to_owned()),
            None if is_number => Ok(part.to_owned()),
            None => Err(format!("{name}: unknown port\n")),
        }
    };
    flow.split(',').map(part).collect::<Result<Vec<_>, _>>().map(|parts| parts.join(","))
}

/// `ofproto/trace [OPTIONS] BRIDGE FLOW [PACKET]`: the tables that a frame visits, and where it leaves. The states that
/// `--ct-next` names are not used: a trace tracks no connection.
pub fn trace(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let (mut words, mut names, mut arguments) = (Vec::new(), None, arguments.iter());
    while let Some(word) = arguments.next() {
        match *word {
            "--names" => names = Some(()),
            "--no-names" => names = None,
            "--ct-next" => _ = arguments.next(),
            "-consistent" | "--consistent" | "-generate" | "--generate" => {}
            word if word.starts_with('-') => return Err(format!("{word}: unknown option\n")),
            word => words.push(word),
        }
    }
    let served = bridge(room, words.first())?;
    let flow = numbered(&served, words.get(1).copied().unwrap_or_default())?;
    let frame = words.get(2).map(|frame| (*frame).to_owned());
    let request = Request::FlowsTrace { bridge: Some(served.name.clone()), flow, frame };
    let answer = room.ask(request).map_err(|why| why + "\n")?;
    Ok(traced(&served, names.is_some(), answer["trace"].as_str().unwrap_or_default()))
}

/// The ports to which a frame is sent, by their names if these are asked for.
fn sent(bridge: &Served, names: bool, sent: &str) -> String {
    let named = |part: &str| {
        let digits = part.split(' ').next().unwrap_or_default();
        let port = bridge.ports.iter().find(|port| names && digits.parse() == Ok(port.number));
        port.map_or_else(|| part.to_owned(), |port| part.replacen(digits, &port.name, 1))
    };
    sent.split(", ").map(named).collect::<Vec<_>>().join(",")
}

/// A trace with the headings of Open vSwitch.
fn traced(bridge: &Served, names: bool, trace: &str) -> String {
    let heading = format!("bridge(\"{}\")", bridge.name);
    let mut said = String::new();
    for (at, line) in trace.lines().enumerate() {
        let _ = match line.strip_prefix("Sent: ") {
            Some(ports) if ports.starts_with("nothing") => writeln!(said, "Datapath actions: drop"),
            Some(ports) => writeln!(said, "Datapath actions: {}", sent(bridge, names, ports)),
            None => writeln!(said, "{line}"),
        };
        // The heading follows the line of the flow.
        if at == 0 {
            let _ = write!(said, "\n{heading}\n{}", "-".repeat(heading.len()));
        }
    }
    said
}

/// `bridge/dump-flows BRIDGE`: all flows and their counts.
pub fn dump(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let name = bridge(room, arguments.first())?.name;
    let request = Request::FlowsDump { bridge: Some(name), matching: None };
    let answer = room.ask(request).map_err(|why| why + "\n")?;
    let mut said = String::new();
    for flow in answer["flows"].as_array().into_iter().flatten() {
        let number = |field: &str| flow[field].as_u64().unwrap_or(0);
        if number("table") != 0 {
            let _ = write!(said, "table_id={}, ", number("table"));
        }
        let seconds = flow["seconds"].as_f64().unwrap_or_default() as u64;
        let text = flow["flow"].as_str().unwrap_or_default().replacen(" actions=", ",actions=", 1);
        let (packets, bytes) = (number("packets"), number("bytes"));
        let _ = writeln!(said, "duration={seconds}s, n_packets={packets}, n_bytes={bytes}, {text}");
    }
    Ok(said)
}

/// `dpctl/dump-flows`: no flow, because flows have no copy in a datapath. What a worker keeps of the outcome of a frame is
/// its own, and is no flow: it has no counts.
pub fn cached(_: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let is_known = |word: &str| {
        let options = ["-m", "--more", "--names", "--no-names"];
        let filters = ["filter=", "type=", "pmd="];
        options.contains(&word) || is_datapath(word) || filters.iter().any(|filter| word.starts_with(filter))
    };
    arguments.iter().find(|word| !is_known(word)).map_or(Ok(String::new()), |word| Err(datapath::other(word)))
}

/// `dpif/dump-flows BRIDGE`, as [`cached`].
pub fn cached_of_bridge(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    bridge(room, arguments.iter().find(|word| !word.starts_with('-'))).map(|_| String::new())
}

/// `upcall/show`: the flows of the datapath, of which there is none, and no thread that looks at them.
pub fn upcalls(_: &mut Room, _: &[&str]) -> Result<String, String> {
    let lines = "flows         : (current 0) (avg 0) (max 0) (limit 0)\n  dump duration : 0ms\n  ufid enabled : false";
    Ok(format!("{}:\n  {lines}\n\n", datapath::NAME))
}

#[cfg(test)]
mod tests {
    use super::super::bridge::ServedPort;
    use super::*;

    #[test]
    fn a_trace_has_the_headings_that_programs_look_for() {
        let trace = "Flow: in_port=1\n\n 0. priority 5\n    output:2\n\nFinal flow: unchanged\nSent: 2, 3\nCache entry: x\n";
        let expected = "Flow: in_port=1\n\nbridge(\"br0\")\n-------------\n 0. priority 5\n    output:2\n\n\
                        Final flow: unchanged\nDatapath actions: 2,3\nCache entry: x\n";
        let port = |number, name: &str| ServedPort { number, name: name.to_owned(), kind: String::new() };
        let bridge =
            Served { name: "br0".to_owned(), has_local: true, ports: vec![port(2, "vif2"), port(3, "t 3")] };
        assert_eq!(traced(&bridge, false, trace), expected);
        let named = expected.replace("actions: 2,3", "actions: vif2,t 3");
        assert_eq!(traced(&bridge, true, trace), named);
        assert_eq!(sent(&bridge, true, "2 (queue 1), 7"), "vif2 (queue 1),7");
        let dropped = traced(&bridge, true, "F\n\nSent: nothing\n");
        assert_eq!(dropped, "F\n\nbridge(\"br0\")\n-------------\nDatapath actions: drop\n");
        for (flow, number) in [
            ("in_port=vif2,ip", "in_port=2,ip"),
            ("ip,in_port=\"t 3\"", "ip,in_port=3"),
            ("in_port=br0", "in_port=LOCAL"),
            ("in_port=9", "in_port=9"),
            ("in_port=LOCAL", "in_port=LOCAL"),
        ] {
            assert_eq!(numbered(&bridge, flow).as_deref(), Ok(number));
        }
        assert!(numbered(&bridge, "in_port=vif9").is_err());
    }
}
