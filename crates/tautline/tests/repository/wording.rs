//! Keeps retired words out of sources, help, pages and scripts: private words for which the field has its own. If a
//! line needs such a word, for example to quote another project or an old file, keep the word on the list and make its
//! pattern more precise.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a word is looked for.
#[derive(Clone, Copy, PartialEq)]
enum In {
    /// Sources, scripts and pages.
    All,
    /// Rust sources alone: elsewhere it is an ordinary word.
    Rust,
    /// These folders' Rust sources.
    Folders(&'static [&'static str]),
}
use In::{All, Folders, Rust};

/// Pattern (Perl's, as `grep -P` reads it), where, and what is written instead.
const RETIRED: &[(&str, In, &str)] = &[
    // Copies and cache lines.
    (r"\bManner\b|\bmanner\.rs\b|\b(this|that|other|which|either|a) manner\b", All, "CopyPolicy, CopyTuner"),
    (r"\bStream\b", Folders(&["crates/net-queues/src/deliver"]), "NonTemporal"),
    (
        r"\b(FlushChoice|FlushWay)\b|\b(enum|struct) (Flush|Way|Choice)\b",
        Folders(&["crates/memory", "crates/virtqueue", "crates/frame", "crates/port"]),
        "Demotion, DemotionTuner",
    ),
    (
        r"(?i)\bgiven[ -]up[ -]lines?\b|\blines? (that )?(are|is|were) given up\b|\bgiv(e|ing) up (single )?lines\b",
        All,
        "cache-line demotion; demote",
    ),
    (r"(?i)\bpoll(s|ing)?[ -]in[ -]vain\b", All, "empty poll, device idle"),
    (r"\b(SETTLED|CHANGING|LEFT_BEHIND)\b", Rust, "STABLE_INTERVAL, SETTLE_LAPS, WARMUP"),
    (r"\b(TIMED|STRETCH)\b", Folders(&["crates/port", "crates/virtqueue"]), "SAMPLE_LAPS, SAMPLE_BURSTS"),
    // Frames.
    (r"\bParcels?\b", All, "GsoOutput"),
    (r"\b(enum|struct|type) Piece\b", Folders(&["crates/virtio"]), "Segment"),
    (r"\b(Lending|Lender|Lent)\b", All, "FrameBatch, SgArena, SgBuilder"),
    (
        r"\blook_simple\b|\b(enum|struct) (Head|Meta)\b",
        Rust,
        "parse_header, parse_fast, HeaderSnapshot, FrameMeta",
    ),
    // Queues.
    (r"\bfn put_back\b|\.put_back\(", Folders(&["crates/port", "crates/virtqueue"]), "rewind"),
    (r"\b(struct|trait) Cells\b|\bCells<", Rust, "AtomicSlice"),
    (r"\bstruct Read\b", Folders(&["crates/virtqueue/src/split"]), "Descriptor"),
    (r"\bBelieved\b", All, "IndirectFlags::Trusted"),
    // Ports and the switch.
    (
        r"\b(enum|struct|trait) (Entrance|Exit|Outlet|Claim)\b|\bExits\b",
        Folders(&["crates/frame", "crates/port", "crates/switch"]),
        "RxQueue, TxQueue, TxHandle, SharedTxQueue",
    ),
    (r"\b(enum|struct) (Bell|Letter)\b|\bletters?: ", Rust, "Waker, wake, clear; messages"),
    (r"\bCrew\b", All, "WorkerPool"),
    (r"\b(enum|struct) Member\b", Folders(&["crates/switch"]), "WorkerHandle"),
    (r"\bPlugboard\b|\b(enum|struct|trait) (Board|Hub)\b", All, "PortContext; attach, detach"),
    (r"\bfn (un)?plug(_source|_sink)?\b", Rust, "attach, detach"),
    (r"\b(enum|struct) (Place|Plan)\b", Folders(&["crates/switch/src"]), "QueueAssignment, QueuePlan"),
    (
        r"\b(fn conversation|heard_at|last_heard)\b",
        Folders(&["crates/frame", "crates/port", "crates/switch"]),
        "same-address run, last_seen",
    ),
    (r"\bComplaints?\b", All, "LogRateLimiter"),
    (r"\bstruct Verdict\b", Folders(&["crates/switch/src"]), "Decision"),
    (r"\bfn (obey|complain)\b", Rust, "handle_command, log"),
    // Figures.
    (r"(?i)\b(machine|host|core|fast|slow|near|far|quiet|two)('s|s)? moods?\b", All, "machine states"),
    (
        r"(?i)\bway of (the )?(packets|frames)\b|\bway of a (frame|figure)\b|\bframe's way\b",
        All,
        "topology; packet path; how a number is produced",
    ),
    (r"(?i)\bnot at, Mpps\b|\bfound, Mpps\b", All, "throughput, lowest failing rate"),
    (r"(?i)\b(near|far) (cores?|receivers?|drivers?)\b", All, "core-to-core latency class"),
    (r"(?i)\bwhole cores\b", All, "SMT-undisturbed"),
    // The lab.
    (r"\b(enum|struct) (Share|How)\b", Rust, "Fraction, Method"),
    (r"\b(enum|struct) Order\b", Folders(&["crates/bench-peers/src"]), "RunPlan"),
    (r"\bmod own\b", Folders(&["crates/bench-peers"]), "generator_cells.rs"),
    (r"\b(enum|struct) Place\b", Folders(&["crates/lab/src/compare"]), "EnvironmentSlot"),
    (r"(?i)\b(its|their|the) last words\b|\blast_words\b", All, "last output"),
    (
        r#"^\s*(opens|closes|to do):|"(opens|closes|to do)"|\b(opens|closes|to do):  "#,
        Rust,
        "enables, unavailable, fix",
    ),
    // Options.
    (r"--patience\b", All, "--timeout"),
    (r"--connect\b", All, "--wire"),
    (r"--addresses\b", All, "--mac-table-size"),
    (r"--workers CPUS\b|`--workers`", All, "--cpus"),
    (r"--external\b", All, "--workloads"),
    (r"--cross-check\b|\bcross_check\b", All, "--cyclictest"),
    (
        r"--(trial|wakeup|search-trial|worker-deadline)-ms\b|--spin-us\b",
        All,
        "durations with units: --trial 200ms, --spin 60us",
    ),
    (r"tautline compare\b.*--seed\b", All, "nothing: it has no effect"),
    // Sentences.
    (r"(?i)\btrials say nothing\b", All, "invalid trials are discarded and repeated"),
    (r"(?i)\bin silence\b", All, "silently"),
    (r"(?i)\bare set up by themselves\b", All, "installs what is missing"),
    (r"(?i)\bis told the truth\b|\bwhoever is told\b", All, "acknowledged before it is reported"),
    (r"(?i)\ba limit was missed\b", All, "threshold exceeded"),
    (r"(?i)\bhow it went to\b", All, "outcome"),
    (r"(?i)\bfor those who change it\b", All, "Contributing"),
    (r"(?i)\bdoes it measure right\b", All, "Validating the measurements"),
];

/// Words whose rename is not done, by their patterns. Each line that goes is a rename that came.
const STILL_TO_GO: &[&str] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// All files that are kept under version control, and those that are about to be.
fn kept() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

/// Texts in which words may be retired. What was written on a day stays as it was written: results,
/// laboratory notes, the list of changes.
fn is_read(path: &Path) -> bool {
    let text = path.extension().is_none_or(|extension| {
        ["rs", "md", "sh", "mk", "toml", "css", "json", "service", "env", "conf"]
            .iter()
            .any(|of| extension == *of)
    });
    let old =
        ["docs/results", "docs/experiments", "bench-results", "CHANGELOG.md", "fuzz/corpus", "Cargo.lock"];
    text && !old.iter().any(|old| path.starts_with(old)) && path != Path::new(file!())
}

fn applies(place: In, path: &Path) -> bool {
    let rust = path.extension().is_some_and(|extension| extension == "rs");
    match place {
        All => true,
        Rust => rust,
        Folders(folders) => rust && folders.iter().any(|folder| path.starts_with(folder)),
    }
}

/// The lines of the files that a pattern matches, as `file:number:line`.
fn grep(pattern: &str, files: &[&PathBuf]) -> Vec<String> {
    let output = Command::new("grep")
        .args(["-nHP", "-e", pattern, "--"])
        .args(files)
        .current_dir(root())
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("GNU grep");
    // 1: no line matches. A file that was removed and is still in the index is named on the standard error.
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.lines().all(|line| line.ends_with("No such file or directory")), "{pattern}: {error}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn retired_words_do_not_come_back() {
    let files: Vec<PathBuf> = kept().into_iter().filter(|path| is_read(path)).collect();
    assert!(files.len() > 300, "only {} files read: the search is broken", files.len());
    let mut found = Vec::new();
    let mut gone = Vec::new();
    for (pattern, place, instead) in RETIRED {
        let files: Vec<&PathBuf> = files.iter().filter(|path| applies(*place, path)).collect();
        let lines = if files.is_empty() { Vec::new() } else { grep(pattern, &files) };
        match STILL_TO_GO.contains(pattern) {
            true if lines.is_empty() => gone.push(format!("{pattern} has gone: take it off STILL_TO_GO")),
            true => {}
            false => found.extend(lines.iter().map(|line| format!("{line}\n    write: {instead}"))),
        }
    }
    assert!(found.is_empty(), "{} lines with retired words:\n{}", found.len(), found.join("\n"));
    assert!(gone.is_empty(), "{}", gone.join("\n"));
    for pattern in STILL_TO_GO {
        assert!(RETIRED.iter().any(|(known, ..)| known == pattern), "{pattern} is in no row of RETIRED");
    }
}

#[test]
fn the_patterns_find_what_they_are_for_and_no_more() {
    let finds = |line: &str| {
        RETIRED.iter().any(|(pattern, ..)| {
            let mut grep =
                Command::new("grep").args(["-qP", "-e", pattern]).stdin(Stdio::piped()).spawn().unwrap();
            grep.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
            grep.wait().unwrap().success()
        })
    };
    for line in [
        "pub enum Manner {",
        "lines that are given up",
        "polling in vain",
        "struct Place {",
        "its last words",
        "use --patience 3",
        "tautline switch --connect a=b",
        "impl Plugboard for Board",
        "the crew: Crew,",
    ] {
        assert!(finds(line), "not found: {line}");
    }
    for line in [
        "in order, whatever happens",
        "let place = order.iter()",
        "the search is given up",
        "Ordering::Acquire",
        "a plan of the run",
        "std::thread::JoinHandle",
        "it reads a stream of bytes",
        "exit code 3",
        "read far ahead",
    ] {
        assert!(!finds(line), "found in error: {line}");
    }
}
