//! Steps of a packet through virtio-net into a guest under KVM on arm64, and out of it.

use std::time::{Duration, Instant};

use peers::nested::ArmMachine;
use serde_json::Value;

use super::guest_within::Guest;

const LIMIT: Duration = Duration::from_secs(240);
/// Until the last of the trace's events that this kernel has is switched on.
const STARTED: &str = "until grep -qs 1 /sys/kernel/tracing/instances/tautline-*/events/block/block_rq_complete/enable; do usleep 50000; done";

/// A card of the guest, by its name in `docs/paths.md`.
struct Card {
    name: &'static str,
    device: &'static str,
    vhost: &'static str,
}

/// Both transports on both back-ends.
const CARDS: [Card; 4] = [
    Card { name: "arm64 virtio-mmio", device: "virtio-net-device", vhost: "off" },
    Card { name: "arm64 virtio-pci", device: "virtio-net-pci,romfile=", vhost: "off" },
    Card { name: "arm64 vhost-net, mmio", device: "virtio-net-device", vhost: "on" },
    Card { name: "arm64 vhost-net", device: "virtio-net-pci,romfile=", vhost: "on" },
];

/// The steps of the packets that one direction of the guest's card has. The guest sends from the first time that its
/// packets are followed on, so those that it receives come first.
fn steps(machine: &ArmMachine, guest: &Guest<'_>, followed: &str) -> Value {
    if followed == "net-tx" {
        guest.sends(machine);
    }
    let trace = format!(
        "tautline kvm path {followed} --pid $(cat /guest.pid) --time 2s --format json --output /path.json >/path.txt 2>&1"
    );
    let trace = machine.begin(&trace, LIMIT).unwrap();
    machine.must(STARTED);
    if followed == "net-rx" {
        // No host has the address: no answer comes.
        machine.run("ping -c 30 -i 0.05 -W 1 10.0.0.9").unwrap();
    }
    let output = trace.wait().unwrap();
    assert!(output.success(), "{}", machine.must("cat /path.txt"));
    let found: Value = serde_json::from_str(&machine.must("cat /path.json")).unwrap();
    peers::schema::fits(&found);
    found
}

fn documented(path: &str, followed: &str) -> String {
    let page = include_str!("../../../../docs/paths.md");
    let cells = page.lines().map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect());
    let mut rows = cells.filter(|cells: &Vec<&str>| cells.len() > 4);
    let row = rows.find(|cells| cells[1] == path && cells[2] == followed);
    row.map_or("nothing", |cells| cells[3]).to_owned()
}

/// Most packets take the number of steps that the page says.
pub fn packets_are_followed(machine: &ArmMachine) {
    let start = Instant::now();
    let mut wrong = Vec::new();
    for card in &CARDS {
        let guest = Guest::start(machine, card.device, card.vhost);
        for followed in ["net-rx", "net-tx"] {
            let found = steps(machine, &guest, followed);
            let steps = found["steps"].as_array().map_or(0, Vec::len);
            let variants = found["variants"].as_array().into_iter().flatten();
            let others: Vec<_> = variants.map(|variant| (&variant["packets"], &variant["steps"])).collect();
            let [packets, alike] = ["packets", "alike"].map(|name| found[name].as_u64().unwrap_or_default());
            println!(
                "{} {followed}: {alike} of {packets} packets took {steps} steps, others {others:?}, after {:?}",
                card.name,
                start.elapsed()
            );
            for step in found["steps"].as_array().into_iter().flatten() {
                println!(
                    "  {} {} -> {} {}: {} {}",
                    step["from"]["who"],
                    step["from"]["mode"],
                    step["to"]["who"],
                    step["to"]["mode"],
                    step["arrow"],
                    step["what"]
                );
            }
            let page = documented(card.name, followed);
            if packets < 10 || alike * 2 <= packets || steps.to_string() != page {
                wrong.push(format!("{} {followed}: the page says {page}: {found}", card.name));
            }
        }
        guest.end(machine);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
