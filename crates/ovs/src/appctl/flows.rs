//! The commands about flows: `ofproto/trace`, `bridge/dump-flows`.

use std::fmt::Write as _;

use control::Request;

use super::room::Room;

/// Returns the name of a bridge if the bridge exists.
fn bridge(room: &Room, name: Option<&&str>) -> Result<String, String> {
    let found = room.bridges().into_iter().find(|bridge| name == Some(&bridge.name.as_str()));
    found.map(|bridge| bridge.name).ok_or_else(|| "no such bridge\n".to_owned())
}

/// `ofproto/trace BRIDGE FLOW [PACKET]`: the tables that a frame visits, and where it leaves.
pub fn trace(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let name = bridge(room, arguments.first())?;
    let flow = arguments.get(1).copied().unwrap_or_default().to_owned();
    let frame = arguments.get(2).filter(|word| !word.starts_with('-')).map(|frame| (*frame).to_owned());
    let request = Request::FlowsTrace { bridge: Some(name.clone()), flow, frame };
    let answer = room.ask(request).map_err(|why| why + "\n")?;
    Ok(traced(&name, answer["trace"].as_str().unwrap_or_default()))
}

/// A trace with the headings of Open vSwitch.
fn traced(bridge: &str, trace: &str) -> String {
    let heading = format!("bridge(\"{bridge}\")");
    let mut said = String::new();
    for (at, line) in trace.lines().enumerate() {
        let _ = match line.strip_prefix("Sent: ") {
            Some(sent) if sent.starts_with("nothing") => writeln!(said, "Datapath actions: drop"),
            Some(sent) => writeln!(said, "Datapath actions: {}", sent.replace(", ", ",")),
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
    let name = bridge(room, arguments.first())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_the_headings_that_programs_look_for() {
        let trace = "Flow: in_port=1\n\n 0. priority 5\n    output:2\n\nFinal flow: unchanged\nSent: 2, 3\nCache entry: x\n";
        let expected = "Flow: in_port=1\n\nbridge(\"br0\")\n-------------\n 0. priority 5\n    output:2\n\n\
                        Final flow: unchanged\nDatapath actions: 2,3\nCache entry: x\n";
        assert_eq!(traced("br0", trace), expected);
        let dropped = traced("b", "F\n\nSent: nothing\n");
        assert_eq!(dropped, "F\n\nbridge(\"b\")\n-----------\nDatapath actions: drop\n");
    }
}
