//! The table in docs/support-matrix.md.

use std::fmt::Write;
use std::path::Path;

use crate::root::Versions;
use crate::{Failed, Results};

const BEGIN: &str = "<!-- make test-matrix: begin -->\n";
const END: &str = "<!-- make test-matrix: end -->\n";

/// Puts the table of these results between its two marks.
pub fn write(page: &Path, results: &Results) -> Result<(), Failed> {
    let text = std::fs::read_to_string(page)?;
    let place = text.find(BEGIN).zip(text.find(END)).filter(|(begin, end)| begin < end);
    let (begin, end) =
        place.ok_or_else(|| format!("{} lacks the marks of make test-matrix", page.display()))?;
    let text = format!("{}{BEGIN}{}{}", &text[..begin], table(results)?, &text[end..]);
    std::fs::write(page, text)?;
    Ok(())
}

fn table(results: &Results) -> Result<String, Failed> {
    let mut text =
        "\n| builds of | QEMU | Linux in the guest | DPDK | Open vSwitch | OVN | tests | day |\n".to_owned();
    text += "|---|---|---|---|---|---|---|---|\n";
    for one in &results.sets {
        let all = one.passed.len() + one.failed.len();
        let (set, date) = (&one.set, &one.date);
        let Versions { qemu, linux, dpdk, open_vswitch, ovn } = &one.builds;
        let builds = [qemu, linux, dpdk, open_vswitch, ovn].map(String::as_str).join(" | ");
        write!(text, "| {set} | {builds} | {} of {all} pass", one.passed.len())?;
        if !one.failed.is_empty() {
            let names: Vec<String> = one.failed.iter().map(|name| format!("`{name}`")).collect();
            write!(text, "; not: {}", names.join(", "))?;
        }
        writeln!(text, " | {date} |")?;
    }
    Ok(text + "\n")
}
