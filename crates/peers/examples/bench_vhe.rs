//! What exits of an arm64 guest cost with VHE and without, in instructions of the emulated CPU, beside those of a guest
//! of the nested x86-64 machine: `make bench-vhe`. Each mode is booted twice, in turns, and both figures are shown.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use peers::Output;
use peers::nested::{ArmSettings, Clock, KvmMode, Settings};
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
    let mut programs = std::env::args().skip(1);
    let program = programs.next().ok_or("name a static tautline for arm64")?;
    let own = programs.next().ok_or("name a tautline for x86-64")?;
    let mut found: [Vec<Vec<Row>>; 2] = [Vec::new(), Vec::new()];
    // A B B A.
    for place in [0, 1, 1, 0] {
        eprintln!("booting with {:?}", MODES[place]);
        found[place].push(measured(Path::new(&program), MODES[place])?);
    }
    let [vhe, nvhe] = found;
    let x86 = [on_x86(Path::new(&own))?, on_x86(Path::new(&own))?];
    println!("| row | what | VHE | nVHE | nVHE / VHE | x86-64 (SVM) |\n|---|---|---|---|---|---|");
    for (index, row) in vhe[0].iter().enumerate() {
        let of = |boots: &[Vec<Row>]| boots.iter().map(|rows| rows[index].instructions).collect::<Vec<_>>();
        let (with, without) = (of(&vhe), of(&nvhe));
        let text = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let ratio = without.iter().sum::<u64>() as f64 / with.iter().sum::<u64>().max(1) as f64;
        let of_x86: Vec<u64> = x86.iter().filter_map(|rows| rows.get(&row.id).copied()).collect();
        let cells = [text(&with), text(&without), format!("{ratio:.2}"), text(&of_x86)].join(" | ");
        println!("| `{}` | {} | {cells} |", row.id, row.title);
    }
    println!("Instructions of an emulated CPU, medians of two boots each: not times.");
    Ok(())
}

/// Boots a machine whose clock counts instructions, and returns the rows that it could measure.
fn measured(program: &Path, mode: KvmMode) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    let machine = ArmSettings::default().mode(mode).clock(Clock::Instructions).program(program).start()?;
    rows(program, |line| machine.run_within(line, LIMIT))
}

/// Boots the nested machine with the same clock, and returns the medians of the rows that it could measure, in
/// instructions: the counter of this CPU counts two for each.
fn on_x86(program: &Path) -> Result<BTreeMap<String, u64>, Box<dyn std::error::Error>> {
    eprintln!("booting x86-64");
    let machine = Settings::default().clock(Clock::Instructions).program(program).start()?;
    let found = rows(program, |line| machine.run_within(line, LIMIT))?;
    Ok(found.into_iter().map(|row| (row.id, row.instructions / 2)).collect())
}

/// The rows that `kvm costs` of this program measured in a machine, with their medians in ticks.
fn rows(
    program: &Path,
    run: impl Fn(&str) -> Result<Output, peers::Error>,
) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let output = run(&format!("{name} kvm costs --samples 200 --format json"))?;
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
