//! What exits of an arm64 guest cost with VHE and without, in instructions of the emulated CPU: `make bench-vhe`.
//! Both modes are booted several times, in turns. For each row, prints the least, the middle and the most of the boots'
//! medians, and the spread: the most by the least, less one.

use std::path::Path;
use std::time::Duration;

use peers::nested::{ArmSettings, Clock, KvmMode};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(600);
const MODES: [KvmMode; 2] = [KvmMode::Vhe, KvmMode::Nvhe];
/// The places of the boots' modes in [`MODES`]: in turns, and as early and late in each mode.
const TURNS: [usize; 10] = [0, 1, 1, 0, 0, 1, 1, 0, 0, 1];

/// A row of one boot: its name, and its median in instructions.
struct Row {
    id: String,
    instructions: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args().nth(1).ok_or("name a static tautline for arm64")?;
    let mut found: [Vec<Vec<Row>>; 2] = [Vec::new(), Vec::new()];
    for place in TURNS {
        let rows = measured(Path::new(&program), MODES[place])?;
        let medians: Vec<u64> = rows.iter().map(|row| row.instructions).collect();
        eprintln!("{:?}: {medians:?}", MODES[place]);
        found[place].push(rows);
    }
    let [vhe, nvhe] = found;
    println!(
        "Instructions of an emulated CPU (not times): of the medians of {} boots with VHE and {} without, least, middle, \
         most and spread.",
        vhe.len(),
        nvhe.len()
    );
    println!(
        "| row | VHE least | middle | most | spread % | nVHE least | middle | most | spread % | nVHE / VHE |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (index, row) in vhe[0].iter().enumerate() {
        let [with, without] = [&vhe, &nvhe].map(|boots| Medians::of(boots, index, &row.id));
        let ratio = without.middle as f64 / with.middle.max(1) as f64;
        println!("| {} | {} | {} | {ratio:.2} |", row.id, with.cells(), without.cells());
    }
    Ok(())
}

/// The medians of one row over the boots of a mode.
struct Medians {
    least: u64,
    middle: u64,
    most: u64,
}

impl Medians {
    fn of(boots: &[Vec<Row>], index: usize, id: &str) -> Self {
        let mut all: Vec<u64> = boots
            .iter()
            .map(|rows| {
                assert_eq!(rows[index].id, id, "each boot measures all rows");
                rows[index].instructions
            })
            .collect();
        all.sort_unstable();
        Self { least: all[0], middle: all[all.len() / 2], most: all[all.len() - 1] }
    }

    fn cells(&self) -> String {
        let spread = (self.most as f64 / self.least.max(1) as f64 - 1.0) * 100.0;
        format!("{} | {} | {} | {spread:.2}", self.least, self.middle, self.most)
    }
}

/// Boots a machine whose clock counts instructions, and returns the rows that it could measure.
fn measured(program: &Path, mode: KvmMode) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    let machine = ArmSettings::default().mode(mode).clock(Clock::Instructions).program(program).start()?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let output = machine.run_within(&format!("{name} kvm costs --samples 200 --format json"), LIMIT)?;
    if !output.success() {
        return Err(format!("kvm costs: {}", output.stderr).into());
    }
    let costs: Value = serde_json::from_str(&output.stdout)?;
    let rows = costs["rows"].as_array().into_iter().flatten().filter_map(|row| {
        let id = row["id"].as_str().unwrap_or_default().to_owned();
        Some(Row { id, instructions: row["median_ticks"].as_u64()? })
    });
    Ok(rows.collect())
}
