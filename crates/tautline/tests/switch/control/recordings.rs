//! Files that two would write, or one write that another replays: refused however it is asked for, and by whatever name.
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::ctl;
use crate::common::signal;
use crate::switch_process::{Sockets, SwitchProcess, wait_for};

/// A capture of one frame, and another name of it.
fn capture(sockets: &Sockets) -> (PathBuf, Vec<u8>) {
    let header = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, 60, 60].map(u32::to_le_bytes).concat();
    let bytes = [&header[..], &[0xff; 60]].concat();
    fs::write(sockets.path("mine"), &bytes).unwrap();
    fs::hard_link(sockets.path("mine"), sockets.path("same")).unwrap();
    (sockets.path("mine"), bytes)
}

#[test]
fn a_switch_does_not_start_that_records_twice_to_a_file_or_over_what_it_replays() {
    let sockets = Sockets::new();
    let (mine, bytes) = capture(&sockets);
    let [mine, same, new] =
        [mine, sockets.path("same"), sockets.path("new")].map(|path| path.display().to_string());
    for (one, other, said) in [
        (format!("pcap:{mine},record={new}"), format!("pcap:{same},record={new}"), "records to it"),
        (format!("pcap:{mine}"), format!("pcap:-,record={same}"), "to be replayed"),
        // Here the recording is started first.
        (format!("pcap:-,record={same}"), format!("pcap:{mine}"), "to be replayed"),
    ] {
        let ports = [format!("a={one}"), format!("b={other}")];
        let mut switch = SwitchProcess::begin(&ports.map(|port| ["--port".to_owned(), port]).concat());
        let status = wait_for("the switch's end", || switch.status());
        assert!(!status.success());
        wait_for(said, || switch.logged().iter().any(|line| line.contains(said)).then_some(()));
        assert_eq!(fs::read(&mine).unwrap(), bytes, "{one} {other}");
    }
}

#[test]
fn a_running_switch_refuses_such_ports_and_captures() {
    let sockets = Sockets::new();
    let (mine, bytes) = capture(&sockets);
    let [control, file, same, new] = ["control", "switch.toml", "same", "new"].map(|name| sockets.path(name));
    let table = |name: &str, target: &Path, record: Option<&Path>| {
        let record = record.map_or_else(String::new, |path| format!("record = \"{}\"\n", path.display()));
        format!("[ports.{name}]\nkind = \"pcap\"\ntarget = \"{}\"\n{record}", target.display())
    };
    let base = format!("control = \"{}\"\n", control.display())
        + &table("replay", &mine, None)
        + &table("record", Path::new("-"), Some(&new));
    fs::write(&file, &base).unwrap();
    let switch = SwitchProcess::start(&["--config".to_owned(), file.display().to_string()]);
    fs::hard_link(&new, sockets.path("new too")).unwrap();
    let recorded = fs::read(&new).unwrap();
    for (path, said) in [(&same, "to be replayed"), (&sockets.path("new too"), "records to it")] {
        let port = format!("late=pcap:-,record={}", path.display());
        let added = ctl(&control, &["add", &port]);
        assert!(added.code == Some(1) && added.stderr.contains(said), "{added}");
        let captured = ctl(&control, &["capture", "replay", "--output", path.to_str().unwrap()]);
        assert!(captured.code == Some(1) && captured.stderr.contains(said), "{captured}");
        assert!(captured.stderr.contains("name another file"), "{captured}");
        // The file says so too.
        fs::write(&file, base.clone() + &table("late", Path::new("-"), Some(path))).unwrap();
        signal(switch.id(), Signal::HUP);
        let refused = |line: &String| line.contains("late: not added") && line.contains(said);
        wait_for("the refusal", || switch.logged().iter().any(refused).then_some(()));
    }
    let replayed = format!("late=pcap:{}", sockets.path("new too").display());
    let added = ctl(&control, &["add", &replayed]);
    assert!(added.code == Some(1) && added.stderr.contains("records to it"), "{added}");
    assert_eq!((fs::read(&mine).unwrap(), fs::read(&new).unwrap()), (bytes, recorded));
    // Two may replay a capture, and a file whose port is gone is free.
    assert_eq!(ctl(&control, &["add", &format!("twice=pcap:{}", same.display())]).code, Some(0));
    assert_eq!(ctl(&control, &["remove", "record"]).code, Some(0));
    assert_eq!(ctl(&control, &["add", &replayed]).code, Some(0));
    switch.end();
}
