//! Holds what the pages on the sources say: ARCHITECTURE.md which crates a crate may use, docs/unsafe.md where `unsafe`
//! may stand, docs/packet-path.md what happens to a frame. The page is the source; a change of the rules is a change of
//! the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The rows of the table under a heading, as the code words of each cell.
fn table(page: &str, heading: &str) -> Vec<Vec<Vec<String>>> {
    let section = page.split(&format!("\n## {heading}\n")).nth(1).expect(heading);
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(|row| row.trim_matches('|').split('|').map(words).collect()).collect()
}

/// Every crate of the workspace with the crates of the workspace that it uses outside tests.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |package: &serde_json::Value| {
        let name = package["name"].as_str().unwrap();
        name.strip_prefix("tautline-").unwrap_or(name).to_owned()
    };
    let names: BTreeSet<String> = packages.iter().map(name).collect();
    packages
        .iter()
        .map(|package| {
            let used = package["dependencies"].as_array().unwrap().iter();
            let used = used.filter(|dependency| dependency["kind"] != "dev");
            let used = used.map(name).filter(|name| names.contains(name)).collect();
            (name(package), used)
        })
        .collect()
}

#[test]
fn crates_use_only_what_the_page_allows() {
    let allowed: BTreeMap<String, BTreeSet<String>> = table(&page("ARCHITECTURE.md"), "Crates")
        .into_iter()
        .map(|row| (row[0][0].clone(), row[2].iter().cloned().collect()))
        .collect();
    for (name, used) in edges() {
        let allowed = allowed.get(&name).unwrap_or_else(|| panic!("{name} is not on the page"));
        let beyond: Vec<&String> = used.difference(allowed).collect();
        assert!(beyond.is_empty(), "{name} uses {beyond:?}, which ARCHITECTURE.md does not allow");
    }
    for name in allowed.keys() {
        assert!(root().join("crates").join(name).is_dir(), "{name} is on the page and not in crates/");
    }
}

/// A map that is read in one sitting.
#[test]
fn the_map_is_short() {
    let bytes = page("ARCHITECTURE.md").len();
    assert!(bytes <= 10_000, "ARCHITECTURE.md has {bytes} bytes");
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every `Type::function` of the sources. Also by the traits and generic parameters that an `impl` names:
/// close enough to notice what was renamed or has gone.
fn functions() -> BTreeSet<(String, String)> {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    let mut found = BTreeSet::new();
    for text in files.into_iter().map(|path| fs::read_to_string(path).unwrap()) {
        let mut owners: Vec<&str> = Vec::new();
        for line in text.lines() {
            let words =
                || line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
            let opens = |word| matches!(word, "impl" | "trait");
            if !line.starts_with([' ', '/']) && words().any(opens) {
                owners = words().collect();
            } else if line == "}" {
                owners.clear();
            } else if let Some(name) = words().skip_while(|word| *word != "fn").nth(1) {
                found.extend(owners.iter().map(|owner| ((*owner).to_owned(), name.to_owned())));
            }
        }
    }
    found
}

#[test]
fn the_packet_path_names_functions_that_there_are() {
    let page = page("docs/packet-path.md");
    let section = page.split("\n## Packet path\n").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap();
    let known = functions();
    let mut named = 0;
    for word in section.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
        let Some((owner, name)) = word.trim_matches(':').split_once("::") else { continue };
        named += 1;
        assert!(known.contains(&(owner.to_owned(), name.to_owned())), "{word} is in no source");
    }
    assert!(named > 25, "only {named} functions found in the drawing: the search is broken");
}

/// Whether a file's code, its comments aside, holds the keyword (and not the `unsafe-inline` of a page).
fn has_unsafe(text: &str) -> bool {
    let keyword = |line: &str| {
        let code = line.split("//").next().unwrap();
        code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(|word| word == "unsafe")
    };
    text.lines().any(keyword)
}

#[test]
fn unsafe_stands_only_where_the_page_names_it() {
    let allowed: BTreeSet<PathBuf> =
        table(&page("docs/unsafe.md"), "Files").into_iter().map(|row| root().join(&row[0][0])).collect();
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    assert!(files.len() > 50, "only {} files found: the search is broken", files.len());
    let found: BTreeSet<PathBuf> =
        files.into_iter().filter(|path| has_unsafe(&fs::read_to_string(path).unwrap())).collect();
    let own = root().join(file!());
    let surplus: Vec<_> = found.iter().filter(|path| !allowed.contains(*path) && **path != own).collect();
    assert!(surplus.is_empty(), "unsafe in {surplus:?}, which docs/unsafe.md does not name");
    let idle: Vec<_> = allowed.difference(&found).collect();
    assert!(idle.is_empty(), "{idle:?} are named in docs/unsafe.md and hold no unsafe");
}

/// The files that explain what happens to a frame can be read in one sitting.
#[test]
fn a_chain_is_followed_in_under_two_thousand_lines() {
    let files = table(&page("docs/packet-path.md"), "Take a chain, copy it, put it back");
    let lines = |row: &Vec<Vec<String>>| {
        let path = root().join(&row[0][0]);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().count()
    };
    let counts: Vec<usize> = files.iter().map(lines).collect();
    assert!(counts.len() >= 10, "only {} files are named", counts.len());
    let sum: usize = counts.iter().sum();
    println!("{sum} lines in {} files", counts.len());
    assert!(sum < 2000, "{sum} lines: {:?}", files.iter().zip(counts).collect::<Vec<_>>());
}

#[test]
fn every_dependency_has_its_line() {
    let lines = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    for line in section.lines().filter(|line| line.contains('=') && !line.contains("path =")) {
        let name = line.split('=').next().unwrap().trim();
        let has =
            |row: &str| row.split('|').nth(1).unwrap_or_default().split(',').any(|cell| cell.trim() == name);
        assert!(lines.lines().any(has), "{name} has no line in docs/dependencies.md");
    }
}
