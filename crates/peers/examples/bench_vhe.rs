//! What exits of an arm64 guest cost with VHE and without, in instructions of the emulated CPU: `make bench-vhe`.
//! Each mode is booted twice, in turns, and both figures are shown.

use std::path::Path;
use std::time::Duration;

use peers::nested::{ArmSettings, Clock, KvmMode};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(600);
const MODES: [KvmMode; 2] = [KvmMode::Vhe, KvmMode::Nvhe];

/// A row of one boot: its name, its title, its median in instructions.
struct Row {
    id: String,
    title: String,
    instructions: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args().nth(1).ok_or("name a static tautline for arm64")?;
    let mut found: [Vec<Vec<Row>>; 2] = [Vec::new(), Vec::new()];
    // A B B A.
    for place in [0, 1, 1, 0] {
        let rows = measured(Path::new(&program), MODES[place])?;
        let medians: Vec<u64> = rows.iter().map(|row| row.instructions).collect();
        eprintln!("{:?}: {medians:?}", MODES[place]);
        found[place].push(rows);
    }
    let [vhe, nvhe] = found;
    println!("| row | what | VHE | nVHE | nVHE / VHE |\n|---|---|---|---|---|");
    for (index, row) in vhe[0].iter().enumerate() {
        let of = |boots: &[Vec<Row>]| boots.iter().map(|rows| rows[index].instructions).collect::<Vec<_>>();
        let (with, without) = (of(&vhe), of(&nvhe));
        let text = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let ratio = without.iter().sum::<u64>() as f64 / with.iter().sum::<u64>().max(1) as f64;
        println!("| `{}` | {} | {} | {} | {ratio:.2} |", row.id, row.title, text(&with), text(&without));
    }
    println!("Instructions of an emulated CPU, medians of two boots each: not times.");
    Ok(())
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
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        Some(Row { id: text("id"), title: text("title"), instructions: row["median_ticks"].as_u64()? })
    });
    Ok(rows.collect())
}
