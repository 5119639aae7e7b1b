//! The host's counts: two histogram triggers in a tracing instance.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;
use serde::{Deserialize, Serialize};

const ACCEPTED: &str = "events/kvm/kvm_apic_accept_irq";
const INJECTED: &str = "events/kvm/kvm_inj_virq";

/// One vector of one virtual CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The APIC id of the virtual CPU.
    pub apic: u64,
    /// The vector.
    pub vector: u64,
    /// How often the host delivered the interrupt.
    pub delivered: u64,
}

/// The interrupts that the host's software delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deliveries {
    /// Deliveries by virtual CPU and vector.
    pub accepted: Vec<Delivery>,
    /// Injections by an entry into the guest, by vector.
    pub injected: BTreeMap<u64, u64>,
    /// Events that a histogram had no room for.
    pub dropped: u64,
}

/// Counts deliveries to all guests of this machine while its instance exists.
pub struct HostCounter {
    accepted: PathBuf,
    injected: PathBuf,
    /// The name of the vector's field in `kvm_inj_virq`, which differs between kernels.
    injected_key: &'static str,
}

impl HostCounter {
    /// Starts counting in a tracing instance, a folder of tracefs that the caller has made and removes.
    ///
    /// # Errors
    /// The format of the event `kvm_inj_virq` cannot be read: no root, no KVM, or a host that is no x86. A trigger is
    /// refused, because the kernel is built without CONFIG_HIST_TRIGGERS.
    pub fn start(instance: &Path) -> Result<Self, Failure> {
        let format = instance.join(INJECTED).join("format");
        let text = fs::read_to_string(&format).map_err(|error| {
            let remedy = "run as root on an x86 host with KVM loaded; other architectures are not known yet";
            Failure::new(format!("reading {}", format.display()), error, remedy)
        })?;
        let has = |field: &str| text.lines().any(|line| line.contains(&format!(" {field};")));
        let injected_key = if has("vector") { "vector" } else { "irq" };
        trigger(&instance.join(ACCEPTED), "apicid,vec")?;
        trigger(&instance.join(INJECTED), injected_key)?;
        let hist = |event: &str| instance.join(event).join("hist");
        Ok(HostCounter { accepted: hist(ACCEPTED), injected: hist(INJECTED), injected_key })
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// A histogram of the instance cannot be read.
    pub fn read(&self) -> Result<Deliveries, Failure> {
        let read = |path: &Path| {
            fs::read_to_string(path)
                .map_err(|error| Failure::new(format!("reading {}", path.display()), error, "run as root"))
        };
        Ok(deliveries(&read(&self.accepted)?, &read(&self.injected)?, self.injected_key))
    }
}

fn trigger(event: &Path, keys: &str) -> Result<(), Failure> {
    let file = event.join("trigger");
    fs::write(&file, format!("hist:keys={keys}:size=4096")).map_err(|error| {
        let remedy = "use a kernel with CONFIG_HIST_TRIGGERS, as distributions have it";
        Failure::new(format!("setting a histogram in {}", file.display()), error, remedy)
    })
}

fn deliveries(accepted: &str, injected: &str, injected_key: &str) -> Deliveries {
    let accepted_rows = rows(accepted, ["apicid", "vec"]);
    Deliveries {
        accepted: accepted_rows
            .map(|([apic, vector], delivered)| Delivery { apic, vector, delivered })
            .collect(),
        injected: rows(injected, [injected_key]).map(|([vector], count)| (vector, count)).collect(),
        dropped: dropped(accepted).saturating_add(dropped(injected)),
    }
}

/// `{ apicid:  0, vec:  37 } hitcount:  5000`: the keys' values with the count. Other lines are passed over.
fn rows<'a, const N: usize>(text: &'a str, keys: [&'a str; N]) -> impl Iterator<Item = ([u64; N], u64)> + 'a {
    text.lines().filter_map(move |line| {
        let (inside, after) = line.trim().strip_prefix('{')?.split_once('}')?;
        let mut values = [0; N];
        for (value, key) in values.iter_mut().zip(keys) {
            let text = inside.split(',').find_map(|part| part.trim().strip_prefix(key)?.strip_prefix(':'))?;
            *value = text.trim().parse().ok()?;
        }
        let count = after.trim().strip_prefix("hitcount:")?.split_whitespace().next()?.parse().ok()?;
        Some((values, count))
    })
}

fn dropped(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Dropped:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_the_kernel_are_read() {
        let accepted = "# event histogram\n\n{ apicid:          0, vec:         37 } hitcount:       5001\n\
            { apicid:          1, vec:        236 } hitcount:          7\n{ broken } hitcount: 1\n\nTotals:\n    Hits: 5009\n    Dropped: 2\n";
        let injected = "{ vector:         37 } hitcount:       4990\n    Dropped: 0\n";
        let found = deliveries(accepted, injected, "vector");
        let delivery = |apic, vector, delivered| Delivery { apic, vector, delivered };
        assert_eq!(found.accepted, [delivery(0, 37, 5001), delivery(1, 236, 7)]);
        assert_eq!(found.injected, BTreeMap::from([(37, 4990)]));
        assert_eq!(found.dropped, 2);
        assert_eq!(deliveries("", "", "irq"), Deliveries::default());
    }
}
