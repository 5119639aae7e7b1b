//! Holds the oldest Rust that is promised: no dependency asks for a newer one, and all places name the same.
//! That the sources use nothing newer is held by clippy's `incompatible_msrv`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Major and minor version.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn no_dependency_needs_a_newer_rust() {
    let promised = version(env!("CARGO_PKG_RUST_VERSION"));
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut checked = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let Some(needed) = package["rust_version"].as_str() else { continue };
        checked += 1;
        assert!(version(needed) <= promised, "{} needs Rust {needed}", package["id"]);
    }
    assert!(checked > 60, "only {checked} packages say which Rust they need: the search is broken");
}

#[test]
fn all_places_name_the_same() {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    let minor = promised.split('.').nth(1).unwrap();
    for (file, text) in [
        ("scripts/setup.sh", format!("oldest_rust={minor} ")),
        ("README.md", format!("Rust {promised} or later")),
        ("docs/support-matrix.md", format!("Rust {promised}")),
    ] {
        assert!(fs::read_to_string(root().join(file)).unwrap().contains(&text), "{file} has no '{text}'");
    }
}
