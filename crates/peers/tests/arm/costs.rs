//! `tautline kvm costs` with VHE and without, in instructions of the emulated CPU.

use std::collections::BTreeMap;
use std::time::Duration;

use peers::nested::ArmMachine;
use serde_json::Value;

/// The rows that the arm64 guest measures, and whether an exit that the kernel handles is most of each.
pub const ROWS: [(&str, bool); 17] = [
    ("stamps", false),
    ("cpuid", true),
    ("hypercall", true),
    ("interrupt-controller", true),
    ("mmio-write-user", false),
    ("mmio-write-ioeventfd", true),
    ("ioeventfd-to-thread", false),
    ("inject-irqfd-spinning", false),
    ("self-ipi", true),
    ("eoi", false),
    ("ipi-spinning", false),
    ("ipi-halted", false),
    ("timer-spinning", false),
    ("timer-halted", false),
    ("page-fault-4k", false),
    ("page-fault-2m", false),
    ("vm-switch", false),
];

/// The medians of one run, in ticks of the counter, by row.
pub type Medians = BTreeMap<String, u64>;

/// The medians in what `kvm costs --format json` printed: of exactly the rows of an arm64 guest.
pub fn medians(costs: &str) -> Medians {
    let costs: Value = serde_json::from_str(costs).unwrap();
    peers::schema::fits(&costs);
    assert_eq!(costs["emulated"], true, "{costs:#}");
    assert!(costs["alignment"]["exchanges"].as_u64().is_some_and(|count| count > 0), "{costs:#}");
    let rows = costs["rows"].as_array().unwrap().iter();
    let found: Medians = rows
        .filter_map(|row| Some((row["id"].as_str()?.to_owned(), row["median_ticks"].as_u64()?)))
        .collect();
    let wanted: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    let measured = costs["rows"].as_array().unwrap().iter().filter(|row| row["median_ticks"].is_u64());
    let measured: Vec<&str> = measured.map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(measured, wanted, "{costs:#}");
    found
}

/// Two runs in this machine.
pub fn measured(machine: &ArmMachine) -> [Medians; 2] {
    [(); 2].map(|()| {
        let output =
            machine.run_within("tautline kvm costs --samples 50 --format json", Duration::from_secs(120));
        let output = output.unwrap();
        assert!(output.success(), "{}\n{}", output.stdout, output.stderr);
        medians(&output.stdout)
    })
}

/// Prints both runs of each mode. Where the kernel handles an exit, it takes more instructions without VHE.
pub fn compare(vhe: &[Medians; 2], nvhe: &[Medians; 2]) {
    println!("instructions of an emulated CPU, medians of two runs: with VHE, without, ratio");
    let mut wrong = Vec::new();
    for (name, by_the_kernel) in ROWS {
        let [with, without] = [vhe, nvhe].map(|runs| [runs[0][name], runs[1][name]]);
        let sum = |runs: [u64; 2]| runs.iter().sum::<u64>() as f64;
        println!("{name:>24} {with:?} {without:?} {:.2}", sum(without) / sum(with).max(1.0));
        let more = without.iter().min() > with.iter().max();
        if by_the_kernel && !more {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "not more without VHE: {wrong:?}");
}
