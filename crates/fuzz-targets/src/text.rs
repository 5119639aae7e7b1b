//! Lines and files: JSON, TOML and words.

use control::protocol;
use daemon::hand_over_format;

use crate::script::Script;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A request to a running switch. A valid request must be unchanged after it is written and read again.
pub fn control_protocol(bytes: &[u8]) {
    if let Ok(call) = serde_json::from_slice::<protocol::Call>(bytes) {
        let written = serde_json::to_string(&call).expect("a call has a form");
        let again: protocol::Call = serde_json::from_str(&written).expect(&written);
        assert_eq!(format!("{again:?}"), format!("{call:?}"));
    }
    if let Ok(answer) = serde_json::from_slice::<protocol::Answer>(bytes) {
        let written = serde_json::to_string(&answer).expect("an answer has a form");
        serde_json::from_str::<protocol::Answer>(&written).expect(&written);
    }
}

/// A configuration file of the switch, and the description of each port.
pub fn configuration(bytes: &[u8]) {
    if let Some(text) = text(bytes) {
        let _ = daemon::settings_file::check(text);
    }
}

/// The document that a switch hands over to the next. A valid document must be unchanged after it is written and read
/// again.
pub fn hand_over(bytes: &[u8]) {
    let Ok(read) = hand_over_format::read(bytes) else { return };
    let written = serde_json::to_vec(&read).expect("a hand-over has a form");
    let again = hand_over_format::read(&written).expect("what was written");
    assert_eq!(format!("{again:?}"), format!("{read:?}"));
}

/// A results file of `compare` or of `rfc2544`, including the page that is drawn from it.
pub fn results(bytes: &[u8]) {
    if let Ok(results) = serde_json::from_slice::<measure::Results>(bytes) {
        let analysis = measure::compare::analyse(&results);
        report::terminal::render(&results, &analysis, 100, false);
        report::html::render(&[results]);
    }
    if let Ok(run) = serde_json::from_slice::<traffic::results::Run>(bytes) {
        serde_json::to_string(&run).expect("a run has a form");
    }
    if let Ok(histogram) = serde_json::from_slice::<measure::Histogram>(bytes) {
        let (least, median) = (histogram.min_ns(), histogram.median_ns());
        assert!(histogram.count() == 0 || least <= median && median <= histogram.max_ns());
    }
}

/// A line to or from an agent.
pub fn agent_protocol(bytes: &[u8]) {
    let Some(line) = text(bytes) else { return };
    if let Ok(request) = workload::protocol::Request::parse(line) {
        let written = request.to_line();
        workload::protocol::Request::parse(&written).expect(&written);
    }
    let _ = workload::protocol::Reply::parse(line);
}

/// Files that a user or another program writes. The first byte selects the kind.
pub fn files(bytes: &[u8]) {
    let mut script = Script(bytes);
    let kind = script.byte();
    let Some(text) = text(script.0) else { return };
    match kind % 5 {
        0 => _ = report::gate::Gate::parse(text),
        1 => _ = text.parse::<report::gate::Limit>(),
        2 => _ = scenario::Description::parse(text),
        3 => _ = kvm::events::Trace::parse(text, 2000.0),
        _ => _ = text.parse::<environment::Spec>(),
    }
}
