//! The workflows of `.github`: every action is pinned, every workflow says what it may do, and every command of ours in
//! them is there. `make lint-workflows` has actionlint check their syntax.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Names and texts.
fn workflows() -> Vec<(String, String)> {
    let folder = fs::read_dir(root().join(".github/workflows")).unwrap();
    let found = folder.map(|entry| entry.unwrap());
    let found: Vec<_> = found
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    for name in ["ci.yml", "real-guests.yml", "release.yml"] {
        assert!(found.iter().any(|(known, _)| known == name), "{name} is missing");
    }
    found
}

/// Whether an action is named by a whole commit, with its version for readers.
fn is_pinned(action: &str) -> bool {
    let Some((_, pin)) = action.split_once('@') else { return false };
    let Some((commit, version)) = pin.split_once(" # v") else { return false };
    commit.len() == 40
        && commit.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && version.starts_with(|c: char| c.is_ascii_digit())
}

#[test]
fn every_action_is_pinned_and_every_workflow_names_its_rights() {
    assert!(!is_pinned("actions/checkout@v4") && !is_pinned("actions/checkout"));
    assert!(
        !is_pinned(&format!("a/b@{} # v1", "g".repeat(40)))
            && is_pinned(&format!("a/b@{} # v1", "0".repeat(40)))
    );
    for (name, text) in workflows() {
        let actions: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: "))
            .collect();
        assert!(!actions.is_empty(), "{name}");
        for action in actions {
            assert!(is_pinned(action), "{name}: {action}");
        }
        assert!(text.contains("\npermissions:\n  contents: read\n"), "{name}: no rights at its top level");
        let jobs = text.matches("runs-on: ").count();
        assert_eq!(jobs, text.matches("timeout-minutes: ").count(), "{name}: a job without a time limit");
    }
}

#[test]
fn every_command_of_ours_in_a_workflow_is_there() {
    let mut seen = 0;
    for (name, text) in workflows() {
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in
            words.windows(2).filter(|pair| pair[0] == "make" && text.contains(&format!("make {}", pair[1])))
        {
            let target = pair[1].trim_end_matches('`');
            let known =
                Command::new("make").args(["-n", "SHELL=true", target]).current_dir(root()).output().unwrap();
            assert!(
                known.status.success(),
                "{name}: make {target}: {}",
                String::from_utf8_lossy(&known.stderr)
            );
            seen += 1;
        }
        for script in words.iter().filter(|word| word.starts_with("scripts/")) {
            let file = root().join(script.trim_end_matches([']', ',']));
            let mode =
                fs::metadata(&file).unwrap_or_else(|error| panic!("{name}: {script}: {error}")).permissions();
            assert_eq!(mode.mode() & 0o111, 0o111, "{name}: {script} cannot be run");
            seen += 1;
        }
    }
    assert!(seen >= 8, "only {seen} commands found: the search is broken");
}

#[test]
fn the_bill_of_materials_has_what_is_linked_in_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("SHA256SUMS"), "").unwrap();
    let made = Command::new("scripts/sbom.sh").arg(folder.path()).current_dir(root()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let name = format!("tautline-{}.cdx.json", env!("CARGO_PKG_VERSION"));
    let bill: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join(&name)).unwrap()).unwrap();
    let components: Vec<&str> =
        bill["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for linked in ["rustix", "serde", "tautline-switch", "tautline-virtqueue"] {
        assert!(components.contains(&linked), "{linked} is missing");
    }
    for test in ["tautline-peers", "proptest"] {
        assert!(!components.contains(&test), "{test} is a test's");
    }
    let checked =
        Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&folder).output().unwrap();
    assert!(
        checked.status.success() && String::from_utf8_lossy(&checked.stdout).contains(&name),
        "{checked:?}"
    );
}
