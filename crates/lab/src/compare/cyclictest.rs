//! cyclictest beside the project's own wake-up work, on the host.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use measure::{Failure, Histogram, MetricId, MetricSpec, Noise, Outcome};

/// The metric that cyclictest measures too.
pub const METRIC: &str = "wakeup.idle";

/// Beyond this many microseconds cyclictest counts an overflow only.
const RANGE_US: u64 = 20_000;

/// The description of cyclictest's figure. It is shown beside `own`, the figure of this project.
pub fn spec(own: &MetricSpec) -> MetricSpec {
    MetricSpec {
        id: MetricId::new(format!("{}.cyclictest", own.id)),
        title: format!("{} (cyclictest)", own.title),
        ..own.clone()
    }
}

/// Runs cyclictest for about `duration`, with the settings of the own wake-up work: one thread, pinned to the
/// first of `cpus`, SCHED_FIFO 80, an interval of 1 ms, memory locked.
///
/// # Errors
/// cyclictest cannot be started, ends with an error (for example without the right to SCHED_FIFO), or prints no
/// histogram.
pub fn run(duration: Duration, cpus: &[usize]) -> Result<Outcome, Failure> {
    let loops = duration.as_millis().max(1).to_string();
    let cpu = cpus.first().copied().unwrap_or(0).to_string();
    let mut command = Command::new("cyclictest");
    command.args(["--quiet", "--mlockall", "--threads=1", "--priority=80", "--interval=1000"]);
    command.args([
        format!("--affinity={cpu}"),
        format!("--loops={loops}"),
        format!("--histogram={RANGE_US}"),
    ]);
    command.stdin(Stdio::null());
    let began = Instant::now();
    let tried = format!("{command:?}");
    let remedy = "install rt-tests and run as root, or leave --cyclictest out";
    let output = command.output().map_err(|error| Failure::new(&tried, error, remedy))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(&tried, format!("{}: {words}", output.status), remedy));
    }
    let histogram = parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Failure::new(&tried, "its output holds no histogram", "use rt-tests 1.0 or later"))?;
    Ok(Outcome {
        value: histogram.median_ns() as f64,
        samples: Vec::new(),
        histogram: Some(histogram),
        missed: 0,
        elapsed_ns: began.elapsed().as_nanos() as u64,
        remarks: vec!["cyclictest counts whole microseconds".into()],
        noise: Noise::default(),
    })
}

/// Lines `000012 000034` are microseconds and counts; `# Max Latencies: 00056` is the maximum, overflows
/// included.
fn parse(text: &str) -> Option<Histogram> {
    let mut histogram = Histogram::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [us, count] if !line.starts_with('#') => {
                if let (Ok(us), Ok(count)) = (us.parse::<u64>(), count.parse::<u64>()) {
                    for _ in 0..count {
                        histogram.record_ns(us * 1000);
                    }
                }
            }
            ["#", "Max", "Latencies:", us] => {
                let max_us: u64 = us.parse().ok()?;
                if max_us >= RANGE_US {
                    histogram.record_ns(max_us * 1000);
                }
            }
            _ => {}
        }
    }
    (histogram.count() > 0).then_some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_of_cyclictest() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\n000003 000007\n000009 000001\n\
                    # Total: 000000008\n# Min Latencies: 00003\n# Avg Latencies: 00003\n# Max Latencies: 00009\n";
        let histogram = parse(text).unwrap();
        assert_eq!((histogram.count(), histogram.max_ns()), (8, 9000));
        assert!(histogram.median_ns().abs_diff(3000) <= 3, "three digits: {}", histogram.median_ns());
        assert_eq!(parse("nothing here"), None);
    }
}
