//! Counts the instructions of an example for each frame with valgrind's callgrind, and checks limits.
use std::process::{Command, ExitCode};

/// Two runs of an example that differ only in their number of bursts, so that work that both do once cancels out.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// The number of bursts in the shorter run.
    pub few: usize,
    /// The number of bursts in the longer run.
    pub many: usize,
    /// The number of frames in a burst.
    pub frames: usize,
}

/// Counts the running program's instructions for each frame in each case, and prints whether the case keeps its
/// limit. The program is started with the case's arguments and a number of bursts. Returns a failure if a limit is
/// exceeded or nothing was counted.
pub fn gate(limits: &[(&str, f64)], runs: Runs, named: impl Fn(&str) -> String) -> ExitCode {
    let kept = limits.iter().fold(true, |kept, &(case, limit)| {
        let name = named(case);
        let Some(counted) = instructions(case, runs) else {
            println!("{name}: could not count: valgrind is not installed, or the program failed under it");
            return false;
        };
        let verdict = if counted <= limit { "kept" } else { "EXCEEDED" };
        println!("{name}: {counted:.1} instructions a frame, limit {limit}: {verdict}");
        kept && counted <= limit
    });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn instructions(case: &str, runs: Runs) -> Option<f64> {
    let count = |bursts: usize| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg(std::env::current_exe().ok()?).args(case.split(' ')).arg(bursts.to_string());
        let output = command.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stderr);
        text.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse::<f64>().ok())
    };
    Some((count(runs.many)? - count(runs.few)?) / ((runs.many - runs.few) * runs.frames) as f64)
}
