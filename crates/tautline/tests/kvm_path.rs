//! Network paths into a guest under real KVM, and what `tautline kvm path` says of them. One machine for all.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Instant;

use peers::nested::{Inner, InnerSettings, Machine, NetworkPath, Settings};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

/// Both ways, with the payload compared by both ends: ping says "wrong data byte" and `request`s that differ are
/// not answered.
fn exchange(machine: &Machine, inner: &Inner, path: NetworkPath) {
    let ping = |to: &str| format!("ping -c 3 -i 0.05 -W 2 -s 200 -p c0ffee {to}");
    let from_guest = inner.must(&ping(&path.machine_address()));
    let to_guest = machine.must(&ping(&path.guest_address()));
    for said in [from_guest, to_guest] {
        assert!(said.contains(" 0% packet loss") && !said.contains("wrong"), "{}: {said}", path.name());
    }
}

/// Steps of one direction on one path, while that direction alone has traffic: nobody answers these pings.
fn steps(machine: &Machine, inner: &Inner, path: NetworkPath, followed: &str) -> serde_json::Value {
    let qemu = inner.id().unwrap();
    let (network, _) = path.machine_address().rsplit_once('.').map(|(n, _)| (n.to_owned(), ())).unwrap();
    let nobody = format!("{network}.9");
    let ping = format!("ping -c 40 -i 0.02 -W 0.1 {nobody} >/dev/null; true");
    let prepare = |mac: &str| {
        format!(
            "dev=$(ip -o route get {nobody} | sed 's/.* dev \\([^ ]*\\).*/\\1/'); ip neigh replace {nobody} lladdr {mac} dev $dev"
        )
    };
    let command = format!(
        "tautline kvm path {followed} --pid {qemu} --time 1s --format json --output /path.json >/path.txt 2>&1"
    );
    if followed == "net-rx" {
        machine.must(&prepare(&path.mac()));
        machine.must(&format!("{command} & trace=$!; sleep 0.2; {ping}; wait $trace"));
    } else {
        inner.must(&prepare("52:54:00:00:0f:0f"));
        let trace = machine.begin(&command, std::time::Duration::from_secs(60)).unwrap();
        inner.must(&format!("sleep 0.3; {ping}"));
        trace.wait().unwrap().expect_success();
    }
    println!("=== {} {followed}\n{}", path.name(), machine.must("cat /path.txt"));
    if std::env::var_os("KEEP_TRACES").is_some() {
        println!("{}", machine.must("true"));
    }
    serde_json::from_slice(&machine.pull(Path::new("/path.json")).unwrap()).unwrap()
}

#[test]
fn packets_take_every_path() {
    let start = Instant::now();
    let machine = Settings::default().program(Path::new(BINARY)).card_to_hand_on().start().unwrap();
    println!("up after {:?}", start.elapsed());
    let mut settings = InnerSettings::default().memory_mib(384);
    for path in NetworkPath::ALL {
        machine.prepare(path).unwrap();
        settings = settings.network(path);
    }
    let inner = machine.guest(&settings).unwrap();
    println!("guest up after {:?}", start.elapsed());
    for path in NetworkPath::ALL {
        inner.bring_up(path).unwrap();
        exchange(&machine, &inner, path);
        println!("{} after {:?}", path.name(), start.elapsed());
    }
    for path in NetworkPath::ALL {
        for followed in ["net-rx", "net-tx"] {
            let report = steps(&machine, &inner, path, followed);
            println!(
                "{} {followed} after {:?}: {}",
                path.name(),
                start.elapsed(),
                report["steps"].as_array().map_or(0, Vec::len)
            );
        }
    }
}
