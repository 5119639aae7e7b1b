//! Whether the counts are those that were kept.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::results::{Figure, Results, SCHEMA};

/// The largest difference between two runs of the same build, as a share and as a number. A change has to exceed it.
fn tolerance(figure: Figure) -> (f64, f64) {
    match figure {
        Figure::Exits => (0.02, 0.3),
        Figure::Transitions => (0.02, 0.5),
        Figure::Instructions => (0.03, 2000.0),
    }
}

/// What is said, and whether all is as it was.
pub struct Judged {
    pub lines: Vec<String>,
    pub is_met: bool,
}

pub fn read(file: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let results: Results = serde_json::from_slice(&text)
        .with_context(|| format!("{}: not a file that `make bench-paths` wrote", file.display()))?;
    ensure!(results.schema == SCHEMA, "{}: of another version: {}", file.display(), results.schema);
    Ok(results)
}

/// Runs must agree with each other, and with what was kept. Counts of another kernel or QEMU are others by right:
/// then only the runs are held against each other, and that is said.
pub fn judge(new: &Results, kept: &Results) -> Judged {
    let (mut lines, mut judged) = (Vec::new(), 0);
    let is_same = new.kernel == kept.kernel && new.qemu == kept.qemu;
    for row in &new.paths {
        let old = kept.paths.iter().find(|old| old.path == row.path && old.direction == row.direction);
        for figure in Figure::ALL {
            let (share, number) = tolerance(figure);
            let (low, high) = row.range(figure);
            let name = format!("{} {}: {}", row.path, row.direction, figure.name());
            judged += 1;
            if high - low > f64::max(number, share * high.abs()) {
                lines.push(format!("{name} of two runs differ: {low} and {high}"));
            }
            let Some(old) = old.filter(|_| is_same) else { continue };
            let (least, most) = old.range(figure);
            judged += 1;
            let room = f64::max(number, share * most.abs());
            if low < least - room || high > most + room {
                lines.push(format!("{name}: {low} to {high}; kept: {least} to {most}"));
            }
        }
    }
    let is_met = lines.is_empty();
    if !is_same {
        lines.push(format!(
            "Kept counts are of {} and {}, these of {} and {}: not compared; keep new ones (docs/paths.md).",
            kept.kernel, kept.qemu, new.kernel, new.qemu
        ));
    }
    lines.push(format!(
        "{judged} comparisons: {}",
        if is_met { "all as they were" } else { "others than they were" }
    ));
    Judged { lines, is_met }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Counts, Row};

    fn results(exits: [f64; 2], kernel: &str) -> Results {
        let counts = |exits: f64| Counts { exits, ..Counts::default() };
        Results {
            schema: SCHEMA.into(),
            started: String::new(),
            tautline: String::new(),
            kernel: kernel.into(),
            qemu: "7.2".into(),
            packets: 1,
            paths: vec![Row {
                path: "e1000".into(),
                direction: "net-rx".into(),
                runs: exits.map(counts).into(),
            }],
        }
    }

    #[test]
    fn what_is_beyond_the_tolerance_is_named() {
        let kept = results([5.0, 5.1], "6.1");
        assert!(judge(&results([5.0, 5.2], "6.1"), &kept).is_met);
        let more = judge(&results([6.0, 6.0], "6.1"), &kept);
        assert!(!more.is_met && more.lines[0].contains("e1000 net-rx: exits: 6 to 6"), "{:?}", more.lines);
        assert!(!judge(&results([4.0, 5.0], "6.1"), &kept).is_met, "the runs differ");
        let other = judge(&results([6.0, 6.0], "6.12"), &kept);
        assert!(other.is_met && other.lines[0].contains("not compared"), "{:?}", other.lines);
    }
}
