//! One cell between rings as a user measures it: on huge pages, with a gate and a page.
use std::path::Path;
use std::process::Command;

const GATE: &str = "min_rounds = 1\n[[limit]]\nfigure = \"rate\"\nmin = ";

/// Frames from the guest, which need no switch: any file will do for it.
fn run(folder: &Path, least: &str) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_bench-peers");
    std::fs::write(folder.join("gate.toml"), format!("{GATE}{least}\n")).unwrap();
    let mut command = Command::new(program);
    command.args([
        "--topologies",
        "guest-to-host",
        "--paths",
        "packed-in-order",
        "--sizes",
        "64",
        "--rounds",
        "2",
    ]);
    command.args(["--no-bridge", "--no-ovs", "--no-generator", "--accept-noise"]);
    command.args(["--tautline", program, "--gate", "gate.toml", "--results", "results", "--markdown", "."]);
    command.current_dir(folder).output().unwrap()
}

#[test]
fn a_missed_limit_ends_with_3_after_tables_that_know_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "1e9");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let missed: Vec<&str> = said.lines().filter(|line| line.starts_with("missed: ")).collect();
    // One, or one for each class of latency where the host moved the cores between two starts.
    assert!(matches!(missed.len(), 1 | 2), "{said}");
    let named =
        |line: &&str| line.contains("guest-to-host, packed-in-order, 64 B") && line.contains("1000000000");
    assert!(missed.iter().all(named), "{said}");

    let page = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
    let page = page.into_iter().find(|path| path.extension().is_some_and(|word| word == "md")).unwrap();
    let text = std::fs::read_to_string(page).unwrap();
    let text = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    // Without huge pages it says so; with them it does not have to.
    let label = match said.contains("no huge pages, small ones instead: ") {
        true => "small pages (4 KiB) at both ends",
        false => "huge pages (2 MiB) at both ends",
    };
    println!("measured with {label}");
    for words in [
        label,
        "| testpmd as device (net_vhost) | DPDK ",
        "| testpmd as driver (net_virtio_user) | DPDK ",
        "| packed-in-order | packed ring ",
        "RING_PACKED",
        "| guest-to-host | 64 | packed-in-order |",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    // Two starts of a round each; where the host moved the cores between them, each in its own class.
    assert!(text.contains("(2/2)") || text.contains("(1/1)"), "no two starts in {text}");
    assert!(!text.contains("missed") && !text.contains("1000000000"), "{text}");
    assert_eq!(run(folder.path(), "1e-9").status.code(), Some(0));
}

#[test]
fn what_is_named_and_not_there_ends_the_run_before_it_begins() {
    for option in ["--gate", "--testpmd", "--testpmd-driver", "--ovs"] {
        let program = env!("CARGO_BIN_EXE_bench-peers");
        let mut command = Command::new(program);
        command.args(["--pages", "small", "--tautline", program, option, "/no/such/thing"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{option}: {said}");
        assert!(said.contains("/no/such/thing"), "{option}: {said}");
    }
}
