//! How long crates, files and functions of `src` may be: each can be read in one sitting, and the command line has no
//! engine.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a crate's `src`, with those of its comments and unit tests.
const CRATE: usize = 9_000;
/// Lines of `src` of the command line, which parses, calls and prints.
const COMMAND_LINE: usize = 6_000;
const FILE: usize = 500;
/// Lines of a function, from its signature to its last brace.
const FUNCTION: usize = 100;

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of a file's functions, with their lines. The file is formatted: a function ends with the first brace that
/// stands as far to the right as its signature.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let words = line.split_whitespace().take_while(|word| !word.starts_with("fn"));
        let is_modifier = |word: &str| {
            word.starts_with("pub(") || word == "\"C\"" || word.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        line.contains("fn ") && words.into_iter().all(is_modifier)
    };
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        // A declaration has no body: it ends with a semicolon.
        let declared = |rest: &str| rest.ends_with(';') && !rest.starts_with(' ');
        let ends = |line: &&str| *line == end || line.strip_prefix(indent).is_some_and(declared);
        let length = match line.ends_with(['}', ';']) {
            true => 1,
            false => 1 + lines[at + 1..].iter().take_while(|line| !ends(line)).count() + 1,
        };
        let name = line.split("fn ").nth(1).unwrap_or_default();
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        found.push((name.to_owned(), length));
    }
    found
}

#[test]
fn crates_files_and_functions_are_short() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let src = folder.join("src");
        let mut files = Vec::new();
        rust_files(&src, &mut files);
        let mut sum = 0;
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let lines = text.lines().count();
            if lines > FILE {
                wrong.push(format!("{}: {lines} lines, {FILE} may be", file.display()));
            }
            sum += lines;
            for (name, lines) in functions(&text) {
                seen += 1;
                if lines > FUNCTION {
                    wrong.push(format!("{}: {name} has {lines} lines, {FUNCTION} may be", file.display()));
                }
            }
        }
        let limit = if folder.ends_with("tautline") { COMMAND_LINE } else { CRATE };
        if sum > limit {
            wrong.push(format!("{}: {sum} lines, {limit} may be", src.display()));
        }
    }
    assert!(seen > 5_000, "only {seen} functions found: the search is broken");
    assert!(wrong.is_empty(), "too long:\n{}", wrong.join("\n"));
}

#[test]
fn functions_are_found_and_measured() {
    let text = "pub(crate) const fn one() {}\nimpl X {\n    fn two(\n        &self,\n    ) {\n        if x {\n        }\n    }\n\n    \
                fn declared(&self);\n}\n// A comment on fn three.\nlet f: fn (u8) = g;\n";
    let found = functions(text);
    assert_eq!(found, [("one".to_owned(), 1), ("two".to_owned(), 6), ("declared".to_owned(), 1)]);
}
