//! A made-up run that contains every case that an output must show. No figure in it was measured.
//!
//! Three environments that worked (the VM emulated) and one that did not start; curves; histograms; noisy
//! and discarded trials; a metric that one environment could not measure; metrics with no difference, a slower
//! result, a faster result, and too few starts.

use crate::host_facts::HostFacts;
use crate::quota::CpuQuota;
use crate::{
    Absence, CurvePoint, Direction, EnvironmentKind, EnvironmentRecord, Failure, Group, Histogram, MetricId,
    MetricSpec, Noise, Outcome, Plan, QuotaRecord, Results, SCHEMA, Trial, Unit, Verdict,
};

const BLOCKS: u32 = 8;
const ROUNDS: u32 = 2;

/// A small generator of the same noise each time (SplitMix64).
struct Wobble(u64);

impl Wobble {
    /// A number in -1..1, the middle more likely.
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        };
        uniform() + uniform() - 1.0
    }
}

/// A metric and how many times the host's cost it has in the container and the VM.
struct Case(MetricSpec, f64, [f64; 2]);

fn spec(id: &str, group: Group, title: &str, unit: Unit, direction: Direction) -> MetricSpec {
    MetricSpec { id: MetricId::new(id), group, title: title.into(), unit, direction, curve: None }
}

fn cases() -> Vec<Case> {
    use Direction::{HigherIsBetter as Up, LowerIsBetter as Down};
    use Group::{Cpu, External, Memory, Os};
    use Unit::{BytesPerSecond, Nanos, OpsPerSecond};
    let other = |unit: &str| Unit::Other(unit.into());
    let mut cases = vec![
        Case(spec("cpu.list", Cpu, "list processing, one core", OpsPerSecond, Up), 48_200.0, [1.0, 9.4]),
        Case(spec("cpu.matrix", Cpu, "matrix arithmetic, one core", OpsPerSecond, Up), 91_500.0, [1.0, 22.0]),
        Case(spec("cpu.crc", Cpu, "CRC, one core", OpsPerSecond, Up), 310_000.0, [1.0, 12.5]),
        Case(spec("cpu.crc.all", Cpu, "CRC, all cores", OpsPerSecond, Up), 598_000.0, [1.02, 13.1]),
        Case(spec("cpu.integer.divide", Cpu, "integer divide", Nanos, Down), 3.61, [1.0, 5.2]),
        Case(spec("cpu.double.divide", Cpu, "double divide", Nanos, Down), 4.02, [1.0, 31.0]),
        Case(spec("memory.read", Memory, "read bandwidth", BytesPerSecond, Up), 11.2e9, [1.0, 6.1]),
        Case(spec("memory.write", Memory, "write bandwidth", BytesPerSecond, Up), 7.9e9, [1.01, 5.5]),
        Case(spec("os.syscall", Os, "system call", Nanos, Down), 112.0, [1.9, 14.2]),
        Case(spec("os.pipe.latency", Os, "pipe round trip", Nanos, Down), 5_610.0, [1.12, 11.0]),
        Case(spec("os.unix.bandwidth", Os, "AF_UNIX bandwidth", BytesPerSecond, Up), 2.9e9, [0.93, 9.2]),
        Case(spec("os.fork_exec", Os, "fork and exec", Nanos, Down), 512_000.0, [1.21, 17.5]),
        Case(spec("os.select.500", Os, "select on 500 TCP sockets", Nanos, Down), 17_900.0, [1.3, 10.4]),
        Case(
            spec("external.coremark", External, "CoreMark (the user's copy)", other("iterations/s"), Up),
            21_400.0,
            [1.0, 8.0],
        ),
    ];
    let patterns = [("sequential", 0.4_f64), ("random", 1.0)];
    let pages = [("small pages", 1.0), ("huge pages", 0.8)];
    for ((pattern, cost), (page, relief)) in
        patterns.into_iter().flat_map(|p| pages.into_iter().map(move |g| (p, g)))
    {
        for power in 14..=28 {
            let bytes = f64::from(1u32 << power);
            let id = format!("memory.latency.{pattern}.{}.{}", page.replace(' ', "_"), 1u64 << power);
            let title = format!("load latency, {pattern}, {page}, {} KiB", bytes / 1024.0);
            let mut spec = spec(&id, Memory, &title, Nanos, Down);
            spec.curve = Some(CurvePoint {
                curve: format!("load latency, {pattern}, {page}"),
                x: bytes,
                x_title: "array size, bytes".into(),
            });
            // A cache hierarchy of 32 KiB, 1 MiB and 32 MiB, its steps rounded as real ones are.
            let step = |at: f64, height: f64| height / (1.0 + (at / bytes).powf(2.5));
            let far = cost * relief;
            let host = 1.1 + step(48e3, 2.9) * cost.sqrt() + step(1.3e6, 14.0) * far + step(40e6, 92.0) * far;
            cases.push(Case(spec, host, [1.0, 3.0 + host / 60.0]));
        }
    }
    cases
}

fn facts() -> HostFacts {
    HostFacts {
        cpu_model: "Example CPU 9000 @ 2.10GHz".into(),
        cpus_online: 4,
        architecture: "x86_64".into(),
        memory_bytes: 16 << 30,
        kernel: "6.1.0-42-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.0-42".into(),
        command_line: "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet".into(),
        hypervisor: "QEMU Standard PC".into(),
        clocksource: "tsc".into(),
        transparent_huge_pages: "madvise".into(),
        governor: String::new(),
        isolated_cpus: String::new(),
        mitigations: vec![
            ("meltdown".into(), "Not affected".into()),
            ("spectre_v2".into(), "Mitigation: Enhanced IBRS".into()),
        ],
        distribution: "Debian GNU/Linux 12 (bookworm)".into(),
    }
}

fn environments() -> Vec<EnvironmentRecord> {
    let record = |name: &str, kind, accelerator: &str, facts: &[(&str, &str)]| EnvironmentRecord {
        name: name.into(),
        kind,
        spec: name.into(),
        accelerator: accelerator.into(),
        emulated: accelerator == "tcg",
        facts: facts.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        cpu_quota: None,
        failure: None,
    };
    let mut lxc = record("lxc", EnvironmentKind::Container, "native", &[]);
    lxc.failure = Some(Failure::new(
        "lxc-execute --name tautline -- /agent",
        "No such file or directory",
        "install it: apt-get install lxc",
    ));
    let mut container =
        record("container", EnvironmentKind::Container, "native", &[("runtime", "crun 1.8.1")]);
    let quota = CpuQuota { quota_us: 19_500, period_us: 20_000 };
    container.cpu_quota = Some(QuotaRecord { quota, inherited: false, trial_ms: 100 });
    vec![
        record("host", EnvironmentKind::Host, "native", &[]),
        container,
        record("vm", EnvironmentKind::Vm, "tcg", &[("QEMU", "7.2.22"), ("machine", "q35"), ("vCPUs", "2")]),
        lxc,
    ]
}

fn trial(metric: &MetricId, environment: &str, (block, round): (u32, u32), value: f64) -> Trial {
    Trial {
        metric: metric.clone(),
        environment: environment.into(),
        block,
        round,
        attempt: 0,
        outcome: Outcome {
            value,
            samples: vec![value * 0.99, value, value * 1.02],
            histogram: None,
            missed: 0,
            elapsed_ns: 100_000_000,
            remarks: Vec::new(),
            noise: Noise::default(),
        },
        host_noise: Noise::default(),
        verdict: Verdict::Accepted,
    }
}

/// A wake-up trial of one second, 1 kHz.
fn wakeup(metric: &MetricId, environment: &str, place: (u32, u32), typical_ns: f64, w: &mut Wobble) -> Trial {
    let mut histogram = Histogram::new();
    for n in 0..1000u64 {
        let rare = if n % 250 == 249 { 6.0 + 5.0 * w.next().abs() } else { 1.0 };
        let skew = (1.0 + w.next()).powi(3) / 4.0;
        histogram.record_ns((typical_ns * (0.75 + skew) * rare) as u64);
    }
    let mut trial = trial(metric, environment, place, histogram.median_ns() as f64);
    trial.outcome.missed = if environment == "vm" { u64::from(place.0.is_multiple_of(3)) } else { 0 };
    trial.outcome.remarks =
        if environment == "container" { vec!["no SCHED_FIFO: EPERM".into()] } else { Vec::new() };
    trial.outcome.samples.clear();
    trial.outcome.elapsed_ns = 1_000_000_000;
    trial.outcome.histogram = Some(histogram);
    trial
}

/// The run. Returns the same run each time.
pub fn results() -> Results {
    let mut w = Wobble(42);
    let (mut metrics, mut trials) = (Vec::new(), Vec::new());
    let places = || (0..BLOCKS).flat_map(|block| (0..ROUNDS).map(move |round| (block, round)));
    for Case(spec, host, times) in cases() {
        for (environment, cost) in [("host", 1.0), ("container", times[0]), ("vm", times[1])] {
            let absent = spec.id.as_str().contains("huge") && environment == "vm";
            // Two starts only of one metric: too few for an interval.
            let few = spec.id.as_str() == "os.fork_exec" && environment == "vm";
            for place in places().filter(|place| !absent && (!few || place.0 < 2)) {
                let level = match spec.direction {
                    Direction::LowerIsBetter => host * cost,
                    Direction::HigherIsBetter => host / cost,
                };
                let value = level * (1.0 + 0.03 * w.next());
                if spec.id.as_str() == "os.syscall" && place == (1, 1) {
                    let mut discarded = trial(&spec.id, environment, place, level * 1.7);
                    discarded.host_noise.steal_ns = 20_000_000;
                    discarded.verdict = Verdict::Discarded("steal 20 ms of 100 ms, limit 2 %".into());
                    trials.push(discarded);
                }
                let mut kept = trial(&spec.id, environment, place, value);
                if spec.id.as_str() == "os.pipe.latency" && environment == "container" && place.0 == 3 {
                    kept.attempt = 2;
                    kept.verdict = Verdict::KeptNoisy("40 involuntary switches, limit 10".into());
                    kept.host_noise.disturbed_cpus = vec![1];
                    (kept.host_noise.throttled_periods, kept.host_noise.throttled_ns) = (3, 1_500_000);
                }
                trials.push(kept);
            }
        }
        metrics.push(spec);
    }
    for (id, title, load) in
        [("wakeup.idle", "wake-up, idle", 1.0), ("wakeup.memory", "wake-up, memory load", 2.1)]
    {
        let spec = spec(id, Group::Wakeup, title, Unit::Nanos, Direction::LowerIsBetter);
        for (environment, typical_ns) in [("host", 3_400.0), ("container", 3_500.0), ("vm", 92_000.0)] {
            for place in places() {
                trials.push(wakeup(&spec.id, environment, place, typical_ns * load, &mut w));
            }
        }
        metrics.push(spec);
    }
    let no_huge_pages = |spec: &MetricSpec| Absence {
        metric: spec.id.clone(),
        environment: "vm".into(),
        reason: Failure::new(
            "mmap with MAP_HUGETLB in the guest",
            "Cannot allocate memory",
            "give the VM more memory: --memory 2G",
        ),
    };
    Results {
        schema: SCHEMA.into(),
        tautline: env!("CARGO_PKG_VERSION").into(),
        started: "2026-01-02T03:04:05Z".into(),
        elapsed_s: 128.4,
        complete: true,
        command: ["tautline", "compare", "--quick", "--environments", "host,container,vm,lxc"]
            .map(String::from)
            .to_vec(),
        host: facts(),
        plan: Plan {
            quick: true,
            blocks: BLOCKS,
            rounds: ROUNDS,
            trial_ms: 100,
            wakeup_ms: 1000,
            cpus: vec![1],
        },
        environments: environments(),
        absences: metrics.iter().filter(|m| m.id.as_str().contains("huge")).map(no_huge_pages).collect(),
        metrics,
        trials,
        network: crate::network::Network::default(),
    }
}

/// The run with only its first environment.
pub fn only_host() -> Results {
    let mut results = results();
    results.environments.truncate(1);
    results.trials.retain(|trial| trial.environment == "host");
    results.absences.clear();
    results
}

/// A run that was interrupted before its first trial.
pub fn empty() -> Results {
    Results {
        complete: false,
        metrics: vec![],
        trials: vec![],
        absences: vec![],
        environments: vec![],
        ..results()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Finding, analyse, analyse_two};

    fn finding(id: &str, environment: &str) -> Finding {
        analyse(&results()).comparison(&MetricId::new(id), environment).unwrap().finding
    }

    #[test]
    fn it_holds_every_finding() {
        assert_eq!(finding("os.syscall", "container"), Finding::Slower);
        assert_eq!(finding("os.unix.bandwidth", "container"), Finding::Faster);
        assert_eq!(finding("cpu.crc", "container"), Finding::NoDifferenceShown);
        assert_eq!(finding("os.fork_exec", "vm"), Finding::TooFewBlocks);
    }

    #[test]
    fn it_survives_its_file_even_with_values_that_json_lacks() {
        let mut written = results();
        let path = tempfile::tempdir().unwrap();
        let path = path.path().join("results.json");
        written.save(&path).unwrap();
        let text = |results: &Results| serde_json::to_string(results).unwrap();
        assert!(text(&Results::load(&path).unwrap()) == text(&written), "a figure changed on its way");
        written.trials[0].outcome.value = f64::NAN;
        written.trials[0].outcome.samples[0] = f64::INFINITY;
        written.save(&path).unwrap();
        let read = Results::load(&path).unwrap();
        assert!(read.trials[0].outcome.value.is_nan());
        let (metric, environment) = (&read.trials[0].metric, &read.trials[0].environment);
        let trials = |r: &Results| analyse(r).summary(metric, environment).unwrap().trials;
        assert_eq!(trials(&read), trials(&results()) - 1);
    }

    #[test]
    fn a_run_against_itself_shows_no_difference_and_a_slowed_one_does() {
        let before = results();
        let mut after = results();
        for trial in &mut after.trials {
            if trial.metric.as_str() == "cpu.crc" {
                trial.outcome.value /= 1.5;
            }
        }
        for comparison in analyse_two(&before, &after) {
            let id = comparison.metric.as_str();
            let expected = match (id, comparison.interval) {
                ("cpu.crc", _) => Finding::Slower,
                (_, None) => Finding::TooFewBlocks,
                _ => Finding::NoDifferenceShown,
            };
            assert_eq!(comparison.finding, expected, "{comparison:?}");
        }
    }
}
