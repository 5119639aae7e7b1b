//! Every test that docs/threat-model.md names is there and is run each time, and every row of its tables names one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|of| of == "rs") {
            found.push(path);
        }
    }
}

/// The functions behind `#[test]` in all sources: those that are run each time, and the ignored ones.
fn tests(root: &Path) -> [BTreeSet<String>; 2] {
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        for behind in text.split("#[test]").skip(1) {
            let Some((attributes, rest)) = behind.split_once("fn ") else { continue };
            let is_ignored = attributes.contains("ignore");
            found[usize::from(is_ignored)].extend(rest.split('(').next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn every_check_has_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let page = fs::read_to_string(root.join("docs/threat-model.md")).unwrap();
    let [tests, ignored] = tests(root);
    assert!(ignored.len() > 5, "only {} ignored tests found: the search is broken", ignored.len());
    assert!(tests.len() > 300, "only {} tests found: the search is broken", tests.len());
    let (mut named, mut in_table) = (0, false);
    for line in page.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            in_table = false;
        } else if cells.last() == Some(&"test") {
            in_table = true;
        } else if in_table && !cells[0].starts_with('-') {
            let names: Vec<&str> = cells.last().unwrap().split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty(), "a row names no test: {line}");
            for name in names {
                assert!(!ignored.contains(name), "'{name}' is not run each time: {line}");
                assert!(tests.contains(name), "there is no test '{name}': {line}");
                named += 1;
            }
        }
    }
    assert!(named > 25, "only {named} tests are named: the search is broken");
}
