//! The parts of the pages that hold figures of a kept run follow from that run.

use std::path::Path;
use std::process::Command;

#[test]
fn parts_of_pages_follow_from_their_kept_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let checked =
        Command::new("python3").arg(root.join("scripts/page-runs.py")).arg("check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
