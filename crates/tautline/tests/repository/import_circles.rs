//! No file of a crate may need, over whatever others, a file that needs it: each is read and changed by what it
//! needs alone.
//!
//! One file *needs* another of its crate where it names something that is defined there: in a `use`, or by a path
//! that begins with `crate`, `super`, `self` or one of its own modules. The path is followed over re-exports to
//! the file where the name is defined. Declaring a module is no need of it, and neither is re-exporting from it
//! (`pub use`), unless the file uses the name itself as well. So a `mod.rs` may gather what its children define,
//! and a child may use what its `mod.rs` defines; both at once is a circle.
//!
//! Tests do not count: `#[cfg(test)]` modules, in the file or in one of their own, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's place in its crate, as `["session", "backend"]`.
type ModulePath = Vec<String>;

/// One file, which is one module.
struct Module {
    file: PathBuf,
    /// Code without comments, texts, tests and `use`.
    code: String,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
}

/// One name of a `use`.
#[derive(Clone)]
struct Import {
    path: Vec<String>,
    /// How it is called here; `*` for all.
    name: String,
    reexported: bool,
}

type Modules = BTreeMap<ModulePath, Module>;

#[test]
fn files_do_not_need_each_other_in_circles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = Vec::new();
    for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        wrong.extend(circles_of(&folder).iter().map(|circle| format!("{name}: {}", circle.join(" -> "))));
    }
    assert!(wrong.is_empty(), "files that need each other:\n{}", wrong.join("\n"));
}

/// The shortest circle through each file that is in one, without those that say the same again.
fn circles_of(folder: &Path) -> Vec<Vec<String>> {
    let root =
        ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)).into_iter().find(|file| file.is_file());
    let mut modules = Modules::new();
    read(&root.unwrap(), Vec::new(), &mut modules);
    circles(&needs(&modules), &|path| {
        modules[path].file.strip_prefix(folder.join("src")).unwrap().display().to_string()
    })
}

fn circles(
    needs: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    show: &dyn Fn(&ModulePath) -> String,
) -> Vec<Vec<String>> {
    let mut seen: BTreeSet<BTreeSet<&ModulePath>> = BTreeSet::new();
    let mut found = Vec::new();
    for start in needs.keys() {
        // Breadth first, from what it needs back to itself.
        let mut from: BTreeMap<&ModulePath, &ModulePath> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(module) = queue.pop_front() {
            for next in needs.get(module).into_iter().flatten() {
                if !from.contains_key(next) {
                    from.insert(next, module);
                    queue.push_back(next);
                }
            }
        }
        if !from.contains_key(start) {
            continue;
        }
        let mut circle = vec![start];
        let mut at = from[start];
        while at != start {
            circle.push(at);
            at = from[at];
        }
        if seen.insert(circle.iter().copied().collect()) {
            circle.push(start);
            found.push(circle.into_iter().rev().map(show).collect());
        }
    }
    found
}

/// Reads a file and the modules that it declares.
fn read(file: &Path, path: ModulePath, modules: &mut Modules) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let code = without_tests(&plain(&text));
    let (imports, code) = imports(&code);
    let words = words(&code);
    let mut children = BTreeSet::new();
    let mut items = BTreeSet::new();
    let kinds = ["struct", "enum", "fn", "trait", "const", "static", "type", "union", "mod", "macro_rules"];
    for (at, word) in words.iter().enumerate() {
        let next = |further: usize| words.get(at + further).map(String::as_str).unwrap_or_default();
        if word == "mod" && next(2) == ";" && is_elsewhere(&text, next(1)) {
            // Such a module is read at its own place, if that is in a crate.
        } else if word == "mod" && next(2) == ";" {
            children.insert(next(1).to_owned());
        } else if kinds.contains(&word.as_str()) {
            let name = if matches!(next(1), "!" | "mut" | "fn") { next(2) } else { next(1) };
            items.insert(name.to_owned());
        }
    }
    let folder = match file.file_stem().unwrap().to_str().unwrap() {
        "lib" | "main" | "mod" => file.parent().unwrap().to_owned(),
        stem => file.with_file_name(stem),
    };
    for child in &children {
        let nested = [folder.join(format!("{child}.rs")), folder.join(child).join("mod.rs")];
        let child_file = nested.iter().find(|file| file.is_file());
        let child_file = child_file.unwrap_or_else(|| panic!("{}: where is mod {child}?", file.display()));
        read(child_file, [path.clone(), vec![child.clone()]].concat(), modules);
    }
    modules.insert(path, Module { file: file.to_owned(), code, children, items, imports });
}

/// Whether this module's file is named by `#[path]`.
fn is_elsewhere(text: &str, module: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declaration = format!("mod {module};");
    lines.windows(2).any(|pair| pair[0].starts_with("#[path = ") && pair[1].ends_with(&declaration))
}

/// Which file needs which.
fn needs(modules: &Modules) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let mut needs: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
    for (path, module) in modules {
        let words = words(&module.code);
        let mut named: Vec<Vec<String>> = inline_paths(&words, module);
        let used = module.imports.iter().filter(|import| !import.reexported || words.contains(&import.name));
        named.extend(used.map(|import| import.path.clone()));
        let found = named.iter().filter_map(|named| home(modules, path, named, 0));
        needs.insert(path.clone(), found.filter(|found| found != path).collect());
    }
    needs
}

/// The module that defines what a path names, seen from `from`; none where it is of another crate.
fn home(modules: &Modules, from: &ModulePath, named: &[String], depth: usize) -> Option<ModulePath> {
    let mut at = from.clone();
    let mut rest = named;
    let mut own = false;
    while let Some((first, further)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => _ = at.pop(),
            "self" => {}
            _ => break,
        }
        (rest, own) = (further, true);
    }
    if depth > 20 {
        return Some(at);
    }
    loop {
        let module = &modules[&at];
        let Some((first, further)) = rest.split_first() else { return Some(at) };
        if module.children.contains(first) {
            at.push(first.clone());
        } else if first == "*" || module.items.contains(first) {
            return Some(at);
        } else if let Some(import) = module.imports.iter().find(|import| import.name == *first && own) {
            let path = [&import.path[..], further].concat();
            return home(modules, &at, &path, depth + 1);
        } else {
            let globs = module.imports.iter().filter(|import| import.name == "*" && own);
            let of_glob = |import: &Import| {
                let path = [&import.path[..import.path.len() - 1], rest].concat();
                let target = home(modules, &at, &import.path[..import.path.len() - 1], depth + 1)?;
                let known =
                    modules[&target].items.contains(first) || modules[&target].children.contains(first);
                known.then(|| home(modules, &at, &path, depth + 1)).flatten()
            };
            // An item that a macro defines is taken to belong to the module that was named.
            return globs.clone().find_map(of_glob).or_else(|| own.then_some(at));
        }
        (rest, own) = (further, true);
    }
}

/// Paths in the code itself that begin in this crate.
fn inline_paths(words: &[String], module: &Module) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for at in 0..words.len() {
        let begins =
            matches!(words[at].as_str(), "crate" | "super" | "self") || module.children.contains(&words[at]);
        let continued = at > 0 && matches!(words[at - 1].as_str(), "::" | ".");
        if !begins || continued || words.get(at + 1).is_none_or(|next| next != "::") {
            continue;
        }
        let mut path = vec![words[at].clone()];
        let mut next = at + 1;
        while words.get(next).is_some_and(|word| word == "::")
            && words.get(next + 1).is_some_and(|word| is_name(word))
        {
            path.push(words[next + 1].clone());
            next += 2;
        }
        found.push(path);
    }
    found
}

/// The names that `use` brings, and the code without it.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut reading: Option<(bool, String)> = None;
    for line in code.lines() {
        let trimmed = line.trim_start();
        if reading.is_none() {
            let visible = trimmed.strip_prefix("pub").map(|rest| match rest.strip_prefix('(') {
                Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest).trim_start(),
                None => rest.trim_start(),
            });
            // Seen from a crate's other files alone, it is a re-export all the same.
            match (trimmed.strip_prefix("use "), visible.and_then(|rest| rest.strip_prefix("use "))) {
                (Some(tree), _) => reading = Some((false, tree.to_owned())),
                (_, Some(tree)) => reading = Some((true, tree.to_owned())),
                _ => {
                    rest.push_str(line);
                    rest.push('\n');
                    continue;
                }
            }
        } else if let Some((_, tree)) = &mut reading {
            tree.push_str(trimmed);
        }
        if let Some((reexported, tree)) = reading.take_if(|(_, tree)| tree.trim_end().ends_with(';')) {
            let words = words(&tree);
            tree_of(&words, &mut 0, &mut Vec::new(), reexported, &mut found);
        }
    }
    (found, rest)
}

/// Reads one tree of a `use`, from the word at `at` to the comma, brace or semicolon behind it.
fn tree_of(
    words: &[String],
    at: &mut usize,
    before: &mut Vec<String>,
    reexported: bool,
    found: &mut Vec<Import>,
) {
    let length = before.len();
    while let Some(word) = words.get(*at) {
        *at += 1;
        match word.as_str() {
            "::" => {}
            "{" => {
                while words.get(*at).is_some_and(|word| word != "}") {
                    tree_of(words, at, before, reexported, found);
                    if words.get(*at).is_some_and(|word| word == ",") {
                        *at += 1;
                    }
                }
                *at += 1;
                before.truncate(length);
                return;
            }
            "," | "}" | ";" => {
                *at -= 1;
                break;
            }
            "as" => {
                let name = words[*at].clone();
                *at += 1;
                found.push(Import { path: path_of(before), name, reexported });
                before.truncate(length);
                return;
            }
            _ => before.push(word.clone()),
        }
    }
    if before.len() > length {
        let path = path_of(before);
        let name = path.last().cloned().unwrap_or_default();
        found.push(Import { path, name, reexported });
    }
    before.truncate(length);
}

/// Without the `self` at the end of `a::{self}`.
fn path_of(words: &[String]) -> Vec<String> {
    match words {
        [first @ .., last] if last == "self" && !first.is_empty() => first.to_vec(),
        all => all.to_vec(),
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Names, `::`, and every other sign by itself.
fn words(code: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if first.is_alphanumeric() || first == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        if !first.is_whitespace() {
            words.push(rest[..length].to_owned());
        }
        rest = &rest[length..];
    }
    words
}

/// Without comments, and with nothing in texts and characters.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let raw = ["r\"", "r#\"", "br\"", "br#\"", "cr\""].iter().find(|begin| rest.starts_with(**begin));
        let inside_word = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(begin) = raw.filter(|_| !inside_word) {
            let end = if begin.contains('#') { "\"#" } else { "\"" };
            out.push_str("\"\"");
            rest[begin.len()..].find(end).map_or(rest.len(), |at| begin.len() + at + end.len())
        } else if first == '"' {
            out.push_str("\"\"");
            quoted(rest, '"')
        } else if first == '\'' && is_character(rest) {
            out.push_str("' '");
            quoted(rest, '\'')
        } else {
            out.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    out
}

/// A character rather than a lifetime.
fn is_character(rest: &str) -> bool {
    let mut further = rest.chars().skip(1);
    matches!((further.next(), further.next()), (Some('\\'), _) | (Some(_), Some('\'')))
}

/// The length of what is between two such quotes, with both.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Without what `#[cfg(test)]` and `#[cfg(any(test, …))]` stand before.
fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    let marks = ["#[cfg(test)]", "#[cfg(any(test", "#[cfg(all(test"];
    while let Some(at) = marks.iter().filter_map(|mark| rest.find(mark)).min() {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        // To the semicolon or past the block that comes first.
        let behind = item.find(']').map_or(item.len(), |end| end + 1);
        let end = match item[behind..].find([';', '{']) {
            Some(end) if item[behind + end..].starts_with('{') => block_end(item, behind + end),
            Some(end) => behind + end + 1,
            None => item.len(),
        };
        rest = &item[end..];
    }
    out + rest
}

fn block_end(text: &str, begin: usize) -> usize {
    let mut depth = 0;
    for (at, character) in text[begin..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return begin + at + 1;
        }
    }
    text.len()
}

/// The circles among files that a test has made up.
#[cfg(test)]
fn circles_among(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join("src").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    circles_of(folder.path())
}

#[test]
fn a_circle_is_found_and_named() {
    let found = circles_among(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("a.rs", "use crate::b::{self, B};\npub struct A;\n"),
        ("b.rs", "use super::c;\npub struct B;\n"),
        ("c.rs", "pub fn c() -> super::a::A { \"crate::b\"; super::a::A }\n"),
    ]);
    assert_eq!(found, [["a.rs", "b.rs", "c.rs", "a.rs"]]);
}

#[test]
fn a_parent_may_gather_or_be_used_but_not_both() {
    let child = ("part/child.rs", "use super::Shared;\npub struct Child(Shared);\n");
    let parent = |more: &str| format!("mod child;\npub use child::Child;\npub struct Shared;\n{more}");
    let with =
        |more: &str| circles_among(&[("lib.rs", "pub mod part;"), ("part/mod.rs", &parent(more)), child]);
    assert!(with("").is_empty());
    assert!(with("#[cfg(test)]\nmod tests { use super::*; fn f(c: Child) {} }\n").is_empty());
    assert_eq!(with("fn f(c: Child) {}\n").len(), 1);
    assert_eq!(with("fn f(c: child::Child) {}\n").len(), 1);
}

#[test]
fn a_re_export_is_followed_to_the_definition() {
    let found = circles_among(&[
        ("lib.rs", "mod error;\nmod part;\npub use error::Error;\npub use part::*;\n"),
        ("error.rs", "pub enum Error { /* crate::part::f */ Bad }\n"),
        ("part.rs", "// crate::part\nuse crate::Error;\npub fn f() -> Error { crate::Error::Bad }\n"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}
