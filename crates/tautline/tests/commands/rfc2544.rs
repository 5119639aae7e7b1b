//! `tautline rfc2544` against real switches: ours, DPDK's and Open vSwitch. Functional checks with short
//! trials at low rates: what is asserted holds whatever else the machine does.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::switch_process::{Sockets, SwitchProcess, connect};
use measure::Histogram;
use peers::netns::TapQueues;
use peers::testpmd::{Forward, Vdev};
use peers::{Netns, OvsDpdk, Testpmd};
use serde_json::Value;
use traffic::trial::is_late;

const TAUTLINE: &str = env!("CARGO_BIN_EXE_tautline");

/// Trials at one load before the last is shown as it is.
const ATTEMPTS: u64 = 8;

/// Each of these tests keeps two CPUs busy: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs it and returns what it wrote.
fn rfc2544(folder: &Path, arguments: &[&str]) -> (Output, Value) {
    rfc2544_by(Command::new(TAUTLINE), folder, arguments)
}

/// Runs `rfc2544` by a command that may run in another place.
fn rfc2544_by(mut tautline: Command, folder: &Path, arguments: &[&str]) -> (Output, Value) {
    let json = folder.join("results.json");
    let page = folder.join("page.html");
    // A switch spreads flows over queues by a hash: of a few flows, all may take one queue.
    let output = tautline
        .arg("rfc2544")
        .args(arguments)
        .args(["--trial", "100ms", "--width", "20", "--max-rate", "20000", "--flows", "64"])
        .arg("--output")
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
    assert_eq!(run["schema"], "tautline-rfc2544/3");
    assert_eq!(run["quick"], true);
    let found: Vec<&str> = run["sizes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["frame_bytes_with_fcs"].as_str().unwrap())
        .collect();
    assert_eq!(found, sizes);
    for size in run["sizes"].as_array().unwrap() {
        let maximum = &size["maximum"];
        let (received, taken) =
            (maximum["received_fps"].as_f64().unwrap(), maximum["taken_fps"].as_f64().unwrap());
        assert!(received > 0.0 && received <= taken, "{maximum}");
        assert!(size["loopback_fps"].as_f64().unwrap() > 0.0);
        assert!(!maximum["trials"].as_array().unwrap().is_empty());
        for at in size["latency"].as_array().unwrap() {
            assert!(at["unsent"].is_u64() && at["disturbed"].is_boolean(), "{at}");
            let histogram =
                |name: &str| serde_json::from_value::<Option<Histogram>>(at[name].clone()).unwrap();
            let generator = histogram("generator").unwrap();
            // Nothing is said where the generator lagged behind its schedule in every trial, but by how much it did.
            match histogram("histogram") {
                Some(latency) => assert!(latency.count() > 0 && !is_late(&latency, &generator), "{at}"),
                None => assert!(generator.count() > 0 && at["invalid"] == ATTEMPTS, "{at}"),
            }
        }
        let percents: Vec<u64> = size["latency"]
            .as_array()
            .unwrap()
            .iter()
            .map(|at| at["percent_of_throughput"].as_u64().unwrap())
            .collect();
        match run["sizes"][0]["search"]["search"].as_str() {
            Some("maximum") => assert_eq!(percents, [0], "no throughput to take a share of"),
            _ => assert!(percents == [0, 10, 50, 90] || percents == [0], "{percents:?}"),
        }
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
    let _alone = alone();
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
        let told = if search == "maximum" { "received: as much" } else { "throughput" };
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Quick: trials") && text.contains(told) && text.contains(extra[1]), "{text}");
    }
}

/// Loss at each load and the longest burst, whatever this machine lets come of them.
const MORE: [&str; 4] = ["--frame-loss", "--back-to-back", "--bursts", "2"];

/// What [`MORE`] asks for is in the results and on the terminal.
fn check_more(output: &Output, run: &Value) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("Frame loss rate") && text.contains("Back-to-back"), "{text}");
    for size in run["sizes"].as_array().unwrap() {
        let walk = &size["frame_loss"];
        let percents: Vec<u64> = walk["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point["percent"].as_u64().unwrap())
            .collect();
        assert!(
            percents.iter().copied().eq((0..percents.len() as u64).map(|n| 100 - 10 * n)),
            "{percents:?}"
        );
        assert!(!walk["trials"].as_array().unwrap().is_empty());
        let bursts = &size["back_to_back"];
        let made = &bursts["made"]["outcome"];
        if let Some(statistics) = made["measured"].get("statistics").filter(|found| !found.is_null()) {
            let of = |what: &str| statistics[what].as_f64().unwrap();
            assert_eq!(of("searches"), 2.0);
            assert!(of("min_frames") <= of("mean_frames") && of("mean_frames") <= of("max_frames"));
            assert!(of("corrected_buffer_seconds") <= of("implied_buffer_seconds"), "{statistics}");
        } else {
            let said = bursts["left_out"]["why"].is_string()
                || made["not_applicable"].is_object()
                || made["measured"]["searches"].is_array();
            assert!(said, "{bursts}");
        }
    }
}

#[test]
fn frame_loss_and_bursts_through_our_switch() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let _switch = switch(folder.path());
    let (from, to) = pair(folder.path(), false);
    let sizes = ["--from", &from, "--to", &to, "--sizes", "64,64x7+570x4+1518x1"];
    let (output, run) = rfc2544(folder.path(), &[&sizes[..], &MORE].concat());
    check(&run, &["64", "64x7+570x4+1518x1"]);
    check_more(&output, &run);
    assert_eq!(run["labels"], serde_json::json!([]));
    let why = run["sizes"][1]["back_to_back"]["left_out"]["why"].as_str().unwrap();
    assert!(why.contains("one length"), "{why}");
}

#[test]
fn flows_are_spread_over_several_queue_pairs() {
    let _alone = alone();
    let sockets = Sockets::new();
    let ports = ["a", "b"].map(|name| sockets.port(name, "vhost-user", ",queue-pairs=2"));
    let switch = SwitchProcess::start(&ports.concat());
    let port = |name: &str| format!("virtio-user:{},queue-pairs=2", sockets.path(name).display());
    let (from, to) = (port("a"), port("b"));
    let folder = tempfile::tempdir().unwrap();
    let search = ["--search", "maximum", "--sizes", "64"];
    let (_, run) = rfc2544(folder.path(), &[&["--from", &from, "--to", &to][..], &search].concat());
    check(&run, &["64"]);
    let snapshot = switch.snapshot();
    let ports = snapshot["ports"].as_array().unwrap();
    let queues = |name: &str, from_guest: bool| -> Vec<[u64; 2]> {
        let port = ports.iter().find(|port| port["name"] == name).unwrap();
        let queues = port["queues"].as_array().unwrap().iter();
        let side = queues.filter(|queue| queue["from_guest"] == from_guest);
        side.map(|queue| ["frames", "bytes"].map(|what| queue[what].as_u64().unwrap())).collect()
    };
    for side in [queues("a", true), queues("b", false)] {
        assert!(side.len() == 2 && side.iter().all(|[frames, _]| *frames > 100), "{side:?}");
        // RFC 2544's 64 bytes: the frame check sequence is none of a buffer's.
        assert!(side.iter().all(|[frames, bytes]| *bytes == frames * 60), "{side:?}");
    }
}

/// From wire to guest to wire, as RFC 8204 calls it: the generator's ports stand for the wires.
///
/// ```text
///   generator ── a ─ switch ─ p0 ── guest: testpmd ── p1 ─ switch ─ b ── generator
/// ```
#[test]
fn pvp_through_a_forwarding_guest() {
    let _alone = alone();
    let sockets = Sockets::new();
    let ports = ["a", "p0", "p1", "b"].map(|name| sockets.port(name, "vhost-user", ""));
    let wires = [connect("a", "p0"), connect("p1", "b")];
    let switch = SwitchProcess::start(&[ports.concat(), wires.concat()].concat());
    let drivers = ["p0", "p1"].map(|name| Vdev::virtio_user(&sockets.path(name)));
    let mut guest = Testpmd::with_ports(drivers).unwrap();
    let [from, to] = ["a", "b"].map(|name| format!("virtio-user:{}", sockets.path(name).display()));
    let folder = tempfile::tempdir().unwrap();
    for (forward, extra) in [(Forward::Io, &MORE[..]), (Forward::Mac, &["--bidirectional"])] {
        guest.set_forward(forward).unwrap();
        guest.start_forwarding().unwrap();
        let arguments = ["--from", &from, "--to", &to, "--sizes", "64", "--access", "payload"];
        let (output, run) = rfc2544(folder.path(), &[&arguments[..], extra].concat());
        check(&run, &["64"]);
        if forward == Forward::Io {
            check_more(&output, &run);
        }
        guest.stop_forwarding().unwrap();
    }
    for port in ["p0", "p1"] {
        assert!(
            crate::switch_process::passed(&switch.snapshot(), port, true) > 0,
            "{port} forwarded nothing"
        );
    }
    assert_eq!(guest.quit().unwrap().status, 0);
}

/// From wire to wire: TAPs and veth stand for both.
///
/// ```text
///   g0 ─ bridge ─ v0 ── veth ── w0 ─ device ─ w1 ── veth ── v1 ─ bridge ─ g1
/// ```
///
/// `device` is the kernel's bridge, or our switch behind a TAP at each wire.
fn p2p(device_is_our_switch: bool) {
    let _alone = alone();
    let tester = Netns::new().unwrap();
    let device = tester.sibling().unwrap();
    let bridge = |place: &Netns, name: &str, ports: [&str; 2]| {
        place.ip(&format!("link add {name} type bridge")).unwrap();
        for port in ports {
            place.ip(&format!("link set {port} master {name}")).unwrap();
            place.ip(&format!("link set {port} up")).unwrap();
        }
        place.ip(&format!("link set {name} up")).unwrap();
    };
    for (tap, near, far) in [("g0", "v0", "w0"), ("g1", "v1", "w1")] {
        tester.tap(tap, TapQueues::One).unwrap();
        tester.join(near, &device, far).unwrap();
        bridge(&tester, &format!("b{tap}"), [tap, near]);
    }
    let _switch = device_is_our_switch.then(|| {
        for (tap, wire) in [("t0", "w0"), ("t1", "w1")] {
            device.tap(tap, TapQueues::One).unwrap();
            bridge(&device, &format!("b{tap}"), [tap, wire]);
        }
        device.start(&format!("{TAUTLINE} switch --port one=tap:t0 --port other=tap:t1")).unwrap()
    });
    if !device_is_our_switch {
        bridge(&device, "between", ["w0", "w1"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--from", "tap:g0", "--to", "tap:g1", "--sizes", "64", "--access", "payload"];
    let (output, run) =
        rfc2544_by(tester.command(TAUTLINE), folder.path(), &[&arguments[..], &MORE].concat());
    check(&run, &["64"]);
    check_more(&output, &run);
    // Never to be taken for a path of hardware, nor for one of vhost-user.
    assert_eq!(run["labels"], serde_json::json!(["software: TAP"]));
    assert!(String::from_utf8(output.stdout).unwrap().contains("software: TAP"));
    assert!(std::fs::read_to_string(folder.path().join("page.html")).unwrap().contains("software: TAP"));
}

#[test]
fn p2p_over_taps_and_veth_through_the_kernels_bridge() {
    p2p(false);
}

#[test]
fn p2p_over_taps_and_veth_through_our_switch() {
    p2p(true);
}

#[test]
fn testpmd_through_and_in_a_loop() {
    let _alone = alone();
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
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ovs = OvsDpdk::new().unwrap();
    for name in ["a", "b"] {
        ovs.add_port(name, &folder.path().join(name)).unwrap();
    }
    let (from, to) = pair(folder.path(), true);
    let (_, run) = rfc2544(folder.path(), &["--from", &from, "--to", &to, "--sizes", "64"]);
    check(&run, &["64"]);
}

/// The commands that `docs/rfc2544.md` gives, word by word but for shorter trials and a folder of their own.
#[test]
fn the_commands_of_the_page_work() {
    let _alone = alone();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rfc2544.md");
    let page = std::fs::read_to_string(page).unwrap();
    for block in ["switch", "testpmd"] {
        let script = page.split(&format!("```sh {block}\n")).nth(1).unwrap().split("```").next().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let script = script
            .replace("/tmp/", &format!("{}/", folder.path().display()))
            .replace("--quick", "--trial 100ms --width 20 --max-rate 20000");
        // Whatever fails, what was started ends.
        let script = format!("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || :; wait || :' EXIT\n{script}");
        let programs = Path::new(TAUTLINE).parent().unwrap().display();
        let output = Command::new("timeout")
            .args(["120", "bash", "-c", &script])
            .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
            // Where DPDK leaves files.
            .env("RUNTIME_DIRECTORY", folder.path())
            .current_dir(folder.path())
            .output()
            .unwrap();
        let (text, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{block}: {text}{error}");
        let columns = ["maximum Mpps", "throughput Mpps", "lowest failing Mpps", "L1 Gbit/s", "limited by"];
        for part in columns.iter().chain(&["Quick: trials", "\n 64 ", "\n 1518 "]) {
            assert!(text.contains(part), "{block}: {part}: {text}");
        }
        for column in columns {
            assert!(page.contains(&format!("\n| {column}")), "{column} is not explained");
        }
        assert_eq!(folder.path().join("rates.html").exists(), block == "switch");
    }
}

#[test]
fn a_limit_that_is_missed_is_exit_code_3_and_what_is_wrong_is_said() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let _switch = switch(folder.path());
    let (from, to) = pair(folder.path(), false);
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tautline")).arg("rfc2544").args(arguments).output().unwrap()
    };
    let gate = folder.path().join("gate.toml");
    std::fs::write(&gate, "[[limit]]\nmetric = \"maximum.64\"\nmin = 1e12\n").unwrap();
    let gate = gate.to_str().unwrap();
    let short = ["--trial", "50ms", "--max-rate", "5000", "--search", "maximum", "--sizes", "64"];
    let output = run(&[&["--from", &from, "--to", &to, "--gate", gate][..], &short].concat());
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("gate: FAILED"));

    // The saved results are drawn again, and compared with themselves.
    let saved = folder.path().join("r.json");
    let saved = saved.to_str().unwrap();
    let output = run(&[&["--from", &from, "--to", &to, "--output", saved][..], &short].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = |arguments: &[&str]| {
        let output = Command::new(TAUTLINE).arg("report").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(report(&[saved]), (Some(0), String::from_utf8(output.stdout).unwrap()));
    assert_eq!(report(&[saved, "--gate", gate]).0, Some(3));
    assert_eq!(report(&[saved, "--limit", "maximum.64>=1e12"]).0, Some(3));
    assert_eq!(report(&[saved, "--limit", "maximum.64>=1"]).0, Some(0));
    assert_eq!(report(&[saved, "--limit", "maximum.64=1"]).0, Some(2));
    let (code, text) = report(&[saved, "--format", "json"]);
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(saved).unwrap()).unwrap();
    assert_eq!((code, serde_json::from_str::<Value>(&text).unwrap()), (Some(0), kept));
    let (code, text) = report(&[saved, saved]);
    assert!(code == Some(0) && text.contains("maximum.64") && text.contains("1.000"), "{text}");
    let (code, text) = report(&[saved, saved, "--format", "json"]);
    let two: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, two["figures"][1]["ratio"].as_f64()), (Some(0), Some(1.0)), "{two}");

    let nobody = format!("virtio-user:{}", folder.path().join("nobody").display());
    for (arguments, code, said) in [
        (&["--from", "nothing"][..], 2, "no kind"),
        (&["--from", &from, "--to", &to, "--sizes", "60"], 2, "60 bytes"),
        (&["--from", &from, "--to", &to, "--sizes", "64", "--vlan", "7"], 2, "68 bytes"),
        (&["--from", &from, "--to", &to, "--sizes", "64", "--trial", "0"], 2, "--trial"),
        (&["--from", &from, "--back-to-back", "--search", "maximum"], 2, "--back-to-back"),
        (&["--from", &from, "--back-to-back", "--bidirectional"], 2, "--bidirectional"),
        (&["--from", &from, "--frame-loss", "--loss-step", "11"], 2, "11"),
        (&["--from", "pcap:/dev/null"], 2, "a capture"),
        (&["--from", &nobody, "--timeout", "1s"], 1, "start the switch first"),
        (&["--from", &from, "--to", &to, "--output", "/nowhere/at/all"], 2, "cannot be written"),
    ] {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}
