//! `ovs-ofctl` runs each command on a bridge of this crate and on a bridge of Open vSwitch. Its standard output, its
//! standard error and its exit code must be equal for both.

mod commands;
mod raw;
mod server;

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use bridge::{Bridge, BridgePort, Identity, PortCounts};
use controllers::News;
use flow_tables::Limits;
use openflow::Description;
use peers::OvsDummy;
use server::Server;

/// Open vSwitch says that a table has room for so many flows.
const FLOWS: usize = 1_000_000;

/// The two bridges, and `ovs-ofctl`.
struct Both {
    folder: tempfile::TempDir,
    ovs: OvsDummy,
    server: Server,
}

fn address(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

/// What stands behind this word, up to a blank.
fn behind<'a>(text: &'a str, word: &str) -> &'a str {
    text.split_once(word)
        .unwrap_or_else(|| panic!("no {word} in {text}"))
        .1
        .split_whitespace()
        .next()
        .unwrap()
}

/// A bridge with the number, the ports and the addresses of Open vSwitch's.
fn twin(shown: &str) -> Bridge {
    let text = |text: &str| text.as_bytes().to_vec();
    let description = Description {
        manufacturer: text("Nicira, Inc."),
        hardware: text("Open vSwitch"),
        software: text("3.1.0"),
        serial: text("None"),
        datapath: text("None"),
    };
    let datapath_id = u64::from_str_radix(behind(shown, "dpid:"), 16).unwrap();
    let limits = Limits { flows: FLOWS, ..Limits::default() };
    let mut bridge = Bridge::new(Identity { datapath_id, description }, 1, 7, limits);
    for (number, name) in [(1, "1(p1)"), (2, "2(p2)"), (flow::port::LOCAL, "LOCAL(ovs0)")] {
        let address = address(behind(shown, &format!("{name}: addr:")));
        let name = name.split_once('(').unwrap().1.trim_end_matches(')');
        let counts = PortCounts { packets: Some((0, 0)), bytes: Some((0, 0)), dropped: None };
        let port = BridgePort { counts, ..BridgePort::new(name, address, Duration::ZERO) };
        bridge.set_port(number, port, &mut News::default());
    }
    bridge
}

impl Both {
    fn new() -> Self {
        let ovs = OvsDummy::new(2).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let shown = ofctl(folder.path(), &["show", &ovs.management()]);
        let server = Server::start(folder.path(), twin(&String::from_utf8(shown.stdout).unwrap()));
        Self { folder, ovs, server }
    }

    /// What a command does at each of them; `BRIDGE` stands for the socket.
    fn outcomes(&self, words: &[&str]) -> [String; 2] {
        [self.server.target(), self.ovs.management()].map(|target| {
            let words: Vec<&str> =
                words.iter().map(|word| if *word == "BRIDGE" { &target[..] } else { *word }).collect();
            let output = ofctl(self.folder.path(), &words);
            let text = |bytes: &[u8]| settled(&String::from_utf8_lossy(bytes).replace(&target, "BRIDGE"));
            format!("{}\n{}exit code {:?}", text(&output.stdout), text(&output.stderr), output.status.code())
        })
    }
}

fn ofctl(folder: &Path, words: &[&str]) -> Output {
    peers::ovs::programs().unwrap().instance(folder).ofctl(words).output().unwrap()
}

/// Lines in one order, without what time makes of them, without the counters that Open vSwitch's dummy ports have of their
/// own, and without the log's head.
fn settled(text: &str) -> String {
    let is_dummys = |line: &str| {
        line.contains("CUSTOM Statistics") || line.contains("_q0_") || line.contains("rx_custom")
    };
    let mut lines: Vec<String> = text.lines().filter(|line| !is_dummys(line)).map(without_times).collect();
    lines.sort();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn without_times(line: &str) -> String {
    let line = line.split_once("|ofctl|").map_or(line, |(_, rest)| rest);
    let mut line = line.to_owned();
    for word in ["duration=", "duration:", "idle_age=", "hard_age="] {
        if let Some(at) = line.find(word) {
            let from = at + word.len();
            let length = line[from..].find([',', ' ', 's']).unwrap_or(line.len() - from);
            line.replace_range(from..from + length, "T");
        }
    }
    // Older than a second by the time it is printed, or not.
    line.replace("idle_age=T, ", "").replace("hard_age=T, ", "")
}

#[test]
fn ovs_ofctl_prints_the_same_of_both_bridges() {
    let both = Both::new();
    std::fs::write(both.folder.path().join("flows"), commands::FLOWS).unwrap();
    let file = both.folder.path().join("flows").display().to_string();
    let mut different = Vec::new();
    for version in commands::VERSIONS {
        for command in commands::all(version) {
            let words: Vec<&str> = ["-O", version]
                .into_iter()
                .chain(command.iter().map(|word| if *word == "FLOWS" { &file[..] } else { *word }))
                .collect();
            let [ours, theirs] = both.outcomes(&words);
            if ours != theirs {
                different.push(format!("{}\nhere: {ours}\nOpen vSwitch: {theirs}\n", words.join(" ")));
            }
        }
    }
    assert!(different.is_empty(), "{} commands differ:\n{}", different.len(), different.join("\n"));
}
