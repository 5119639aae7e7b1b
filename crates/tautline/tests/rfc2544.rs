//! `tautline rfc2544` against real switches: ours, DPDK's and Open vSwitch. Functional checks with short
//! trials at low rates: what is asserted holds whatever else the machine does.
mod switch_process;

use std::path::Path;
use std::process::{Command, Output};

use peers::testpmd::{Forward, Vdev};
use peers::{OvsDpdk, Testpmd};
use serde_json::Value;
use switch_process::SwitchProcess;

/// Runs it and returns what it wrote.
fn rfc2544(folder: &Path, arguments: &[&str]) -> (Output, Value) {
    let json = folder.join("results.json");
    let page = folder.join("page.html");
    let output = Command::new(env!("CARGO_BIN_EXE_tautline"))
        .arg("rfc2544")
        .args(arguments)
        .args(["--trial-s", "0.1", "--width", "20", "--max-rate", "20000", "--flows", "4"])
        .arg("--json")
        .arg(&json)
        .arg("--html")
        .arg(&page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read_to_string(&page).unwrap().contains("Loss against load"));
    (output, serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap())
}

/// What holds for every run: all trials are there, and nothing came out of nothing.
fn check(run: &Value, sizes: &[&str]) {
    assert_eq!(run["schema"], "tautline-rfc2544/1");
    assert_eq!(run["quick"], true);
    let found: Vec<&str> =
        run["sizes"].as_array().unwrap().iter().map(|s| s["frames"].as_str().unwrap()).collect();
    assert_eq!(found, sizes);
    for size in run["sizes"].as_array().unwrap() {
        let maximum = &size["maximum"];
        let (received, taken) =
            (maximum["received_fps"].as_f64().unwrap(), maximum["taken_fps"].as_f64().unwrap());
        assert!(received > 0.0 && received <= taken, "{maximum}");
        assert!(size["loopback_fps"].as_f64().unwrap() > 0.0);
        let search = &size["search"];
        let trials = search.get("trials").or_else(|| search["outcome"].get("trials")).unwrap();
        assert!(!trials.as_array().unwrap().is_empty());
        for trial in trials.as_array().unwrap() {
            if let Some(counts) = trial["measured"].get("valid") {
                let of = |what: &str| counts[what].as_u64().unwrap();
                assert!(of("frames_received") <= of("frames_offered"), "{trial}");
            } else {
                assert!(trial["measured"].get("invalid").is_some(), "{trial}");
            }
        }
    }
}

/// Our switch with two ports that learn.
fn switch(folder: &Path) -> SwitchProcess {
    let port = |name: &str| format!("{name}=vhost-user:{}", folder.join(name).display());
    SwitchProcess::start(&["--port".to_owned(), port("a"), "--port".to_owned(), port("b")])
}

fn pair(folder: &Path, server: bool) -> (String, String) {
    let port = |name: &str| {
        let server = if server { ",server=on" } else { "" };
        format!("virtio-user:{}{server}", folder.join(name).display())
    };
    (port("a"), port("b"))
}

#[test]
fn our_switch_by_every_search() {
    let folder = tempfile::tempdir().unwrap();
    let _switch = switch(folder.path());
    let (from, to) = pair(folder.path(), false);
    for (search, extra) in [
        ("rfc2544", &["--sizes", "64"][..]),
        ("tst009", &["--sizes", "64x7+570x4+1518x1", "--access", "payload", "--bidirectional"]),
        ("mlr", &["--sizes", "128", "--vlan", "7"]),
        ("maximum", &["--sizes", "64"]),
    ] {
        let arguments = [&["--from", &from, "--to", &to, "--search", search][..], extra].concat();
        let (output, run) = rfc2544(folder.path(), &arguments);
        check(&run, &[extra[1]]);
        assert_eq!(run["sizes"][0]["search"]["search"], search);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("Quick: trials") && text.contains("found: ") && text.contains(extra[1]),
            "{text}"
        );
    }
}

#[test]
fn testpmd_through_and_in_a_loop() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let mut testpmd = Testpmd::with_ports(sockets.iter().map(|path| Vdev::vhost(path))).unwrap();
    testpmd.start_forwarding().unwrap();
    let (from, to) = pair(folder.path(), false);
    let (_, run) = rfc2544(folder.path(), &["--from", &from, "--to", &to, "--sizes", "64,1518"]);
    check(&run, &["64", "1518"]);
    drop(testpmd);

    let folder = tempfile::tempdir().unwrap();
    let mut testpmd = Testpmd::with_ports([Vdev::vhost(&folder.path().join("a"))]).unwrap();
    testpmd.set_forward(Forward::MacSwap).unwrap();
    testpmd.start_forwarding().unwrap();
    let (from, _) = pair(folder.path(), false);
    let (_, run) = rfc2544(folder.path(), &["--from", &from, "--sizes", "64", "--access", "payload"]);
    check(&run, &["64"]);
}

#[test]
fn open_vswitch_with_dpdk() {
    let folder = tempfile::tempdir().unwrap();
    let ovs = OvsDpdk::new().unwrap();
    for name in ["a", "b"] {
        ovs.add_port(name, &folder.path().join(name)).unwrap();
    }
    let (from, to) = pair(folder.path(), true);
    let (_, run) = rfc2544(folder.path(), &["--from", &from, "--to", &to, "--sizes", "64"]);
    check(&run, &["64"]);
}

#[test]
fn a_limit_that_is_missed_is_exit_code_3_and_what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let _switch = switch(folder.path());
    let (from, to) = pair(folder.path(), false);
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tautline")).arg("rfc2544").args(arguments).output().unwrap()
    };
    let gate = folder.path().join("gate.toml");
    std::fs::write(&gate, "[[limit]]\nframes = \"64\"\nmin_maximum_mpps = 1e6\n").unwrap();
    let gate = gate.to_str().unwrap();
    let short = ["--trial-s", "0.05", "--max-rate", "5000", "--search", "maximum", "--sizes", "64"];
    let output = run(&[&["--from", &from, "--to", &to, "--gate", gate][..], &short].concat());
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("gate: missed: 64 bytes"));

    let nobody = format!("virtio-user:{}", folder.path().join("nobody").display());
    for (arguments, code, said) in [
        (&["--from", "nothing"][..], 2, "no kind"),
        (&["--from", &from, "--to", &to, "--sizes", "12"], 2, "12 bytes"),
        (&["--from", &from, "--to", &to, "--sizes", "64", "--trial-s", "0"], 2, "--trial-s"),
        (&["--from", &nobody, "--patience", "1"], 1, "start the switch first"),
        (&["--from", &from, "--to", &to, "--json", "/nowhere/at/all"], 2, "cannot be written"),
    ] {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}
