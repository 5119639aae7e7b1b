//! Medians and instruction counts.

use std::process::Command;

/// Median and the order statistics that hold it with 95 % confidence.
pub fn median(samples: &mut [f64]) -> (f64, f64, f64) {
    samples.sort_by(f64::total_cmp);
    let n = samples.len();
    let half = (0.98 * (n as f64).sqrt()).ceil() as usize;
    (samples[n / 2], samples[(n / 2).saturating_sub(half)], samples[(n / 2 + half).min(n - 1)])
}

/// Instructions per buffer: the difference of two runs that differ only in their number of rounds, so that
/// everything around the work cancels. `None` where valgrind is not installed, or the program fails under it.
pub fn instructions(case: &str, burst: usize) -> Option<f64> {
    let count = |rounds: usize| {
        let me = std::env::current_exe().ok()?;
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(me)
            .args(["count", case, &burst.to_string(), &rounds.to_string()])
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stderr);
        text.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse::<f64>().ok())
    };
    // Both counts pass through every position of the ring the same number of times per round.
    let (few, many) = (1024 / burst.min(256), 5 * 1024 / burst.min(256));
    Some((count(many)? - count(few)?) / ((many - few) * burst) as f64)
}

/// As a column of a table; where nothing could be counted, a dash.
pub fn shown(count: Option<f64>) -> String {
    count.map_or("-".to_string(), |n| format!("{n:.1}"))
}
