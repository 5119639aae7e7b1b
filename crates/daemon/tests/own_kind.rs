//! A program adds a kind of port to the switch, and touches neither the switch nor this crate.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use control::protocol::Request;
use control::{Client, OptionValue, PortDescription};
use linux::Child;

/// Long enough for a busy machine; only a failing test waits for it.
const SOON: Duration = Duration::from_secs(60);

/// Cargo builds the examples next to the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().parent().unwrap().join("examples/own_kind");
    assert!(binary.exists(), "{} is missing: run `cargo test -p tautline-daemon`", binary.display());
    binary
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "did not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn described(kind: &str, target: &Path, options: &[(&str, &str)]) -> PortDescription {
    let option = |(key, value): &(&str, &str)| (key.to_string(), OptionValue::Text(value.to_string()));
    let options: BTreeMap<_, _> = options.iter().map(option).collect();
    PortDescription {
        kind: kind.to_owned(),
        target: target.display().to_string(),
        options,
        ..PortDescription::default()
    }
}

/// A capture of one broadcast of 60 bytes.
fn capture(file: &Path) {
    let mut frame = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
    frame.extend([0x88, 0xb5]);
    frame.resize(60, 0);
    let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1];
    let record: [u32; 4] = [0, 0, 60, 60];
    let bytes = header.iter().chain(&record).flat_map(|word| word.to_ne_bytes()).chain(frame);
    std::fs::write(file, bytes.collect::<Vec<u8>>()).unwrap();
}

#[test]
fn a_program_adds_a_kind_of_port() {
    let source = include_str!("../examples/own_kind.rs");
    assert!(source.lines().count() < 60, "a kind of port is a few dozen lines");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let mut command = Command::new(example());
    command.arg(&socket).args(["first", "echo", "one"]);
    let _switch = Child::spawn_group(&mut command).unwrap();
    let mut client = wait_for("the control socket", || Client::connect(&socket).ok());

    let none = Path::new("two");
    let refused = client.add("second", described("gecho", none, &[])).unwrap_err().to_string();
    assert!(refused.contains("vhost-user:PATH") && refused.contains("echo:NAME"), "{refused}");
    let refused = client.add("second", described("echo", none, &[("slots", "0")])).unwrap_err().to_string();
    assert!(refused.contains("1 to 1024"), "{refused}");
    client.add("second", described("echo", none, &[("slots", "8")])).unwrap();
    // Two would send a broadcast to each other without end.
    client.ask(Request::Remove { port: "second".to_owned() }).unwrap();

    let file = folder.path().join("broadcast.pcap");
    capture(&file);
    client.add("replay", described("pcap", &file, &[])).unwrap();
    wait_for("the frame that the port sends back", || {
        let stats = client.ask(Request::Stats).unwrap();
        let ports = stats["ports"].as_array().unwrap();
        let queues = ports.iter().find(|port| port["name"] == "first").unwrap()["queues"].as_array().unwrap();
        let from_guest = queues.iter().find(|queue| queue["from_guest"] == true).unwrap();
        (from_guest["frames"] == 1).then_some(())
    });
}
