//! `tautline crypto bench` at a device of our own.

use linux::Child;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Run, wait_until};

/// Calls a function with the socket of a running `tautline crypto`.
fn with_a_device(test: impl FnOnce(&str)) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("c.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
    command.args(["crypto", "--port", &format!("c=vhost-user:{}", socket.display())]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _device = Child::spawn(&mut command).unwrap();
    peers::socket::wait_for_listener(&socket, Duration::from_secs(30)).unwrap();
    test(&format!("virtio-user:{}", socket.display()));
}

#[test]
fn a_device_is_measured_beside_the_library() {
    with_a_device(|target| {
        for layout in [&[][..], &["--packed"]] {
            let bench = ["crypto", "bench", "--to", target, "--sizes", "64,16384", "--blocks", "6"];
            let run = Run::new(&bench).args(&["--trial", "1ms", "--format", "json"]).args(layout).finish();
            assert_eq!(run.code, Some(0), "{run}");
            let results: Value = serde_json::from_str(&run.stdout).unwrap();
            peers::schema::fits(&results);
            assert_eq!(results["packed"], !layout.is_empty());
            let rows = results["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 2 * 10, "each algorithm with both sizes");
            for row in rows {
                let blocks = row["blocks"].as_array().unwrap();
                assert_eq!(blocks.len(), 6, "{row}");
                let is_measured = |block: &Value| {
                    ["library_per_s", "alone_per_s", "device_per_s"]
                        .iter()
                        .all(|name| block[name].as_f64().unwrap() > 0.0)
                };
                assert!(blocks.iter().all(is_measured), "{row}");
            }
        }
        let text = Run::new(&["crypto", "bench", "--to", target, "--algorithms", "aes-128-gcm,sha-256"])
            .args(&["--sizes", "4096", "--blocks", "1", "--trial", "1ms", "--quiet"])
            .finish();
        assert_eq!(text.code, Some(0), "{text}");
        let first = text.stdout.lines().next().unwrap();
        assert!(first.starts_with("With 4 KiB a request the device does"), "{text}");
    });
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let switch = folder.path().join("net.sock");
    let port = format!("net=vhost-user:{}", switch.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
    command.args(["switch", "--port", &port]).stdout(Stdio::null()).stderr(Stdio::null());
    let _switch = Child::spawn(&mut command).unwrap();
    assert!(wait_until(|| switch.exists()));
    let net = format!("virtio-user:{}", switch.display());
    for (arguments, code, said) in [
        (vec!["--to", "tap:x"], 2, "name a device as virtio-user:PATH"),
        (vec!["--to", "virtio-user:/x", "--algorithms", "rot-13"], 2, "there are aes-128-cbc"),
        (vec!["--to", "virtio-user:/x", "--sizes", "17"], 2, "a multiple of 16"),
        (vec!["--to", "virtio-user:/nowhere/at/all"], 1, "is its server running?"),
        (vec!["--to", &net], 1, "name the socket of a crypto device"),
    ] {
        let run = Run::new(&["crypto", "bench"]).args(&arguments).finish();
        assert_eq!(run.code, Some(code), "{run}");
        assert!(run.stderr.contains(said), "{run}");
    }
}
