//! Holds the pages to the program: every command in a block of README.md and docs/ is run, or parsed where a
//! comment says why; every command in a sentence names what there is; every link leads somewhere.
//!
//! A block with commands of ours carries one of these comments in the line above it, or its page one of the
//! third kind anywhere:
//!
//! ```text
//! <!-- test: run -->                                     here, in a folder of its own instead of /tmp
//! <!-- test: run, with `SHORT` for `LONG` -->            after these replacements
//! <!-- test: run by crates/tautline/tests/NAME.rs -->    a test of its own reads the page
//! <!-- test: parse, REASON -->                           options and values alone are checked
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
}

/// README.md, the other documents beside it, all of docs/, and where archives are kept, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root().join("docs"), "md", &mut found);
    files(&root().join("bench-results/shared"), "md", &mut found);
    let beside = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    found.extend(beside.filter(|path| path.extension().is_some_and(|of| of == "md")));
    found.sort();
    assert!(found.len() > 20, "only {} pages found: the search is broken", found.len());
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// A fenced block: its language, its text, the comment above it, and the line of its fence.
struct Block<'a> {
    language: &'a str,
    text: String,
    marker: Option<&'a str>,
    line: usize,
}

fn marker(line: &str) -> Option<&str> {
    line.trim().strip_prefix("<!-- test: ")?.strip_suffix(" -->")
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut above = "";
    for (number, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let language = language.split(' ').next().unwrap();
                let text = String::new();
                open = Some(Block { language, text, marker: marker(above), line: number + 1 });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
        above = line;
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

/// A page without its blocks.
fn prose(page: &str) -> String {
    let mut inside = false;
    let kept = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// The commands of ours in a block, continued lines joined: words, without what the shell does with them.
fn commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    joined.lines().filter_map(command).collect()
}

/// The words of a line, as a shell splits them: quoted ones are whole, and stand without their quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A command `tautline …` or `make …`, behind any program that runs it, up to a comment, a pipe, or the end of the
/// command.
fn command(line: &str) -> Option<Vec<String>> {
    let ends = |word: &String| {
        matches!(word.as_str(), "&" | "|" | "||" | "&&" | ">" | "2>&1") || word.starts_with('#')
    };
    let words = words(line.trim().trim_start_matches("$ ")).into_iter();
    let words = words.skip_while(|word| matches!(word.as_str(), "sudo" | "exec" | "timeout"));
    let mut words: Vec<String> =
        words.take_while(|word| !ends(word)).map(|word| word.trim_end_matches(';').to_owned()).collect();
    let program = words.first_mut()?;
    if program.ends_with("/tautline") {
        *program = "tautline".to_owned();
    }
    matches!(program.as_str(), "tautline" | "make").then_some(words)
}

fn tautline(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tautline")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout) + &text(output.stderr))
}

/// Whether the command line is one that the program takes: clap reads it up to `--help`, values included.
/// Of make: whether it would know what to do. Without a shell, as `make -n` runs what begins with `+`: a whole build.
fn parse(words: &[String]) -> Result<(), String> {
    if words[0] == "tautline" {
        let mut arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        arguments.push("--help");
        let (parsed, said) = tautline(&arguments);
        return if parsed { Ok(()) } else { Err(said) };
    }
    let make = Command::new("make")
        .args(["-n", "SHELL=true"])
        .args(&words[1..])
        .current_dir(root())
        .output()
        .unwrap();
    make.status.success().then_some(()).ok_or_else(|| String::from_utf8(make.stderr).unwrap())
}

/// Waits until each job is the program that it starts, or for a second. Before that the job is a copy of the shell, which
/// receives SIGTERM with the shell's handler and then starts the program all the same.
const STARTED: &str = "started() { for job in $(jobs -pr); do for try in 1 2 3 4 5 6 7 8 9 10; do \
    [ \"$(cat /proc/$job/comm 2>/dev/null)\" = bash ] || break; sleep 0.1; done; done; }";

/// Runs a block to its end, then ends what it left in the background, which must end well.
fn run(text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tautline"), folder.path().join("tautline")).unwrap();
    let text = text.replace("/tmp/", &format!("{}/", folder.path().display()));
    // A switch is ready when its sockets are there.
    let sockets: Vec<&str> = text
        .split("--port ")
        .skip(1)
        .filter_map(|port| port.split_once("=vhost-user:"))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|(_, path)| path.split([',', ' ', '\n']).next().unwrap())
        .collect();
    let wait: String = sockets
        .iter()
        .map(|socket| format!("until [ -S {socket} ] || ! kill -0 $!; do sleep 0.05; done\n"))
        .collect();
    // A block that fails ends what it started too: as long as that holds the output open, its end is not seen.
    let script = format!(
        "{STARTED}\ntrap 'started; kill $(jobs -pr) 2>/dev/null || true' EXIT\n{text}\n\
         if [ -n \"$(jobs -pr)\" ]; then\n{wait}started\nkill $(jobs -pr)\nwait $!\nfi\n"
    );
    let output = Command::new("timeout")
        .args(["--kill-after", "5", "240", "bash", "-e", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap()))
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .unwrap();
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{}\n{printed}", output.status)) }
}

#[test]
fn a_block_that_fails_ends_what_it_started() {
    let start = Instant::now();
    let failed = run("sleep 60 &\nfalse\n").unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(30), "{failed}");
    run("sleep 60 &\nfalse || true\n").unwrap_err();
    run("sleep 0 &\nwait $!\n").unwrap();
}

/// What a marker asks for, done.
fn check(block: &Block, marker: &str, page: &Path) -> Result<(), String> {
    if let Some(test) = marker.strip_prefix("run by ") {
        return run_by(test, page);
    }
    if let Some(replacements) = marker.strip_prefix("run") {
        let mut text = block.text.clone();
        let mut words = replacements.split('`').skip(1).step_by(2);
        while let Some(short) = words.next() {
            let long = words.next().ok_or("write: with `SHORT` for `LONG`")?;
            if !text.contains(long) {
                return Err(format!("'{long}' is not in the block"));
            }
            text = text.replace(long, short);
        }
        return run(&text);
    }
    let reason = marker.strip_prefix("parse").ok_or(format!("an unknown marker: {marker}"))?;
    if reason.trim_start_matches(',').trim().len() < 10 {
        return Err("no reason is given for not running it".to_owned());
    }
    commands(&block.text).iter().try_for_each(|words| parse(words))
}

/// A test that reads the page by its name.
fn run_by(test: &str, page: &Path) -> Result<(), String> {
    let text = fs::read_to_string(root().join(test)).map_err(|error| format!("{test}: {error}"))?;
    let name = page.file_name().unwrap().to_str().unwrap();
    text.contains(&format!("docs/{name}")).then_some(()).ok_or(format!("{test} does not read {name}"))
}

#[test]
fn every_command_in_a_block_works() {
    let mut failures = Vec::new();
    let (mut ran, mut parsed) = (0, 0);
    for (path, page) in pages() {
        let of_page = page.lines().filter_map(marker).find_map(|marker| marker.strip_prefix("page run by "));
        if let Some(test) = of_page {
            failures.extend(run_by(test, &path).err().map(|error| format!("{}: {error}", path.display())));
            continue;
        }
        for block in blocks(&page) {
            if !matches!(block.language, "" | "sh" | "console" | "bash") || commands(&block.text).is_empty() {
                continue;
            }
            let place = format!("{}:{}", path.strip_prefix(root()).unwrap().display(), block.line);
            let Some(marker) = block.marker else {
                failures
                    .push(format!("{place}: no '<!-- test: … -->' stands above this block:\n{}", block.text));
                continue;
            };
            *(if marker.starts_with("run") { &mut ran } else { &mut parsed }) += 1;
            failures.extend(check(&block, marker, &path).err().map(|error| format!("{place}: {error}")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(ran >= 4 && parsed >= 1, "only {ran} run, {parsed} parsed: the search is broken");
}

/// Every code span of a text, such as `tautline doctor`.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    // A span begins and ends within a paragraph: one backtick too many spoils no other.
    text.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2))
}

#[test]
fn every_command_in_a_sentence_names_what_there_is() {
    let mut helps = BTreeMap::new();
    let mut failures = Vec::new();
    let mut checked = 0;
    for (path, page) in pages() {
        // What was written on a day stays as it was written.
        if ["docs/results", "docs/experiments", "CHANGELOG.md"]
            .iter()
            .any(|kept| path.starts_with(root().join(kept)))
        {
            continue;
        }
        let text = prose(&page);
        for words in spans(&text).filter_map(command) {
            let Some(what) = words.get(1).filter(|word| {
                word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            }) else {
                continue;
            };
            checked += 1;
            let place = format!("{}: `{}`", path.strip_prefix(root()).unwrap().display(), words.join(" "));
            // `tautline --version` and its like.
            if what.starts_with('-') {
                continue;
            }
            if words[0] == "make" {
                failures.extend(parse(&words[..2]).err().map(|error| format!("{place}: {error}")));
                continue;
            }
            // Internal commands are not in the list of commands, and have their help all the same.
            // `kvm trace` and its like have options of their own.
            let inner = words.get(2).filter(|word| word.chars().all(|c| c.is_ascii_lowercase()));
            let inner = inner.filter(|word| {
                matches!(what.as_str(), "host" | "kvm") && tautline(&[what, word, "--help"]).0
            });
            let path: Vec<&str> =
                [what.as_str()].into_iter().chain(inner.map(|word| word.as_str())).collect();
            let (known, help) =
                helps.entry(path.join(" ")).or_insert_with(|| tautline(&[&path[..], &["--help"]].concat()));
            if !*known && !matches!(what.as_str(), "agent" | "probe") {
                failures.push(format!("{place}: there is no such command"));
            }
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let option = option.trim_start_matches('[').split(['=', ']']).next().unwrap();
                if *known && !help.contains(option) {
                    failures.push(format!("{place}: there is no {option}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(checked > 20, "only {checked} commands found: the search is broken");
}

/// A heading's anchor, as forges make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages: BTreeMap<PathBuf, String> = pages().into_iter().collect();
    let anchors = |page: &str| -> BTreeSet<String> {
        prose(page).lines().filter(|line| line.starts_with('#')).map(anchor).collect()
    };
    let mut dead = Vec::new();
    let mut followed = 0;
    for (path, page) in &pages {
        let text = prose(page);
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let Ok(target) = target.canonicalize() else {
                dead.push(format!("{}: {link}", path.display()));
                continue;
            };
            if !heading.is_empty() && pages.get(&target).is_some_and(|page| !anchors(page).contains(heading))
            {
                dead.push(format!("{}: {link}: no such heading", path.display()));
            }
        }
    }
    assert!(followed > 40, "only {followed} links found: the search is broken");
    // And the pages that the sources name.
    let mut sources = Vec::new();
    for folder in ["crates", "scripts", "make", "packaging"] {
        for extension in ["rs", "sh", "mk", "toml"] {
            files(&root().join(folder), extension, &mut sources);
        }
    }
    for source in sources.iter().filter(|source| !source.ends_with(file!())) {
        let text = fs::read_to_string(source).unwrap();
        for named in text.split("docs/").skip(1) {
            let named = named
                .split(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '-' | '.' | '_'))
                .next()
                .unwrap();
            if named.ends_with(".md") && !root().join("docs").join(named).exists() {
                dead.push(format!("{}: docs/{named}", source.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}
