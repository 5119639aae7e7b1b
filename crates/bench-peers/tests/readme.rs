//! What README.md and docs/benchmarks.md say of the kept runs. Of the run whose ten rows README.md has: they are those
//! that the renderer makes of the raw file, it passes the gate, and so many figures miss a goal. Of the newest run, which
//! may be a disturbed one: how many limits it misses, and the packet path has not changed much since.
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Cells of the first table behind this line, its headings first, its rule left out.
fn table(text: &str, behind: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(behind));
    let lines = lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let mut rows: Vec<Vec<String>> = lines.map(cells).collect();
    assert!(rows.len() > 2, "no table behind '{behind}'");
    rows.remove(1);
    rows
}

/// A row of the overview as README.md has it: without what stands in parentheses there.
fn shortened(headings: &[String], row: &[String]) -> Vec<String> {
    let cell = |heading: &str| {
        let at = headings.iter().position(|there| there.starts_with(heading));
        row[at.unwrap_or_else(|| panic!("no column '{heading}' in {headings:?}"))].as_str()
    };
    let first = |heading| cell(heading).split(" (").next().unwrap().to_owned();
    vec![
        cell("frames").into(),
        cell("bytes").into(),
        cell("ring").into(),
        first("Tautline, Mpps"),
        cell("DPDK, Mpps").into(),
        cell("OVS-DPDK, Mpps").into(),
        first("rate over DPDK").replace("no difference shown", "(no difference shown)"),
        cell("busy over DPDK").into(),
        cell("limited by").into(),
        // None where all rounds are of one class.
        cell("core-to-core")
            .split('(')
            .next()
            .map(str::trim)
            .filter(|class| !class.is_empty())
            .unwrap_or("–")
            .into(),
    ]
}

/// A kept run.
struct Run {
    /// The name of its files: the day and the machine.
    name: String,
    folder: tempfile::TempDir,
}

/// README's part about packet rates.
fn part() -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let part = readme.split("<!-- packets: begin -->").nth(1).unwrap();
    part.split("<!-- packets: end -->").next().unwrap().to_owned()
}

impl Run {
    /// The one whose ten rows README.md has: the page that it names first is the run's.
    fn cited() -> Self {
        let part = part();
        let name = part.split("docs/results/").nth(1).and_then(|rest| rest.split(".md").next()).unwrap();
        Self::named(name)
    }

    /// The newest one by its day.
    fn newest() -> Self {
        // Folders of runs that are not kept lie there too.
        let raw = fs::read_dir(root().join("bench-results")).unwrap();
        let names = raw.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let newest = names.filter_map(|name| Some(name.strip_suffix(".json.gz")?.to_owned())).max().unwrap();
        Self::named(&newest)
    }

    fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let packed = root().join(format!("bench-results/{name}.json.gz"));
        let unpacked = Command::new("gzip").arg("-dc").arg(&packed).output().unwrap();
        assert!(unpacked.status.success(), "{}: {unpacked:?}", packed.display());
        fs::write(folder.path().join("results.json"), unpacked.stdout).unwrap();
        Self { name: name.to_owned(), folder }
    }

    /// Its tables, judged by one of this crate's files of limits.
    fn judged_by(&self, limits: &str) -> Output {
        let limits = Path::new(env!("CARGO_MANIFEST_DIR")).join(limits);
        let mut render = Command::new(env!("CARGO_BIN_EXE_bench-peers"));
        render.arg("render").arg(self.folder.path().join("results.json")).arg("--gate").arg(limits);
        render.output().unwrap()
    }

    /// The commit that it measured.
    fn commit(&self) -> String {
        let raw = fs::read_to_string(self.folder.path().join("results.json")).unwrap();
        let raw: serde_json::Value = serde_json::from_str(&raw).unwrap();
        raw["commit"].as_str().expect("a run names its commit").to_owned()
    }

    fn day(&self) -> &str {
        &self.name[..10]
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Figures that a file of limits judged, and those that missed one.
fn judged(said: &str) -> [usize; 2] {
    let line = said.lines().find(|line| line.starts_with("Gate: ")).unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<usize> =
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    [numbers[0], numbers[2]]
}

#[test]
fn the_readmes_rows_are_those_of_its_run() {
    let (run, part) = (Run::cited(), part());
    assert!(part.contains(&format!("`make bench-peers`, {},", run.day())), "{part}");
    let drawn = run.judged_by("gate.toml");
    assert!(drawn.status.success(), "README's run misses a limit of the gate: {}", said(&drawn));
    let overview = table(&String::from_utf8(drawn.stdout).unwrap(), "### Rate and busy time");

    let page = fs::read_to_string(root().join(format!("docs/results/{}.md", run.name))).unwrap();
    assert_eq!(table(&page, "### Rate and busy time"), overview, "docs/results/{}.md", run.name);
    let expected: Vec<_> = overview[1..].iter().map(|row| shortened(&overview[0], row)).collect();
    let rows = table(&part, "");
    assert_eq!(&rows[1..], expected, "README.md");
    assert_eq!(rows.len(), 11, "ten rows and their headings");
}

/// A disturbed run may miss limits of the gate. README.md then says how many.
#[test]
fn the_readme_says_what_the_newest_run_misses() {
    let (newest, part) = (Run::newest(), part());
    let said = said(&newest.judged_by("gate.toml"));
    let [figures, missed] = judged(&said);
    assert!(figures > 500, "{said}");
    if newest.name != Run::cited().name {
        let sentence = format!(
            "{missed} of {figures} figures miss a limit of the gate: [that run too](docs/results/{}.md)",
            newest.name
        );
        assert!(part.contains(&sentence), "README.md does not say '{sentence}'");
    }
    let page = fs::read_to_string(root().join(format!("docs/results/{}.md", newest.name))).unwrap();
    let drawn = table(&said, "### Rate and busy time");
    assert_eq!(table(&page, "### Rate and busy time"), drawn, "docs/results/{}.md", newest.name);
}

#[test]
fn the_page_counts_the_figures_that_miss_a_goal() {
    let said = said(&Run::cited().judged_by("goals.toml"));
    let [judged, missed] = judged(&said);
    let busy =
        said.lines().filter(|line| line.starts_with("missed: ") && line.contains(": Busy of ")).count();
    let page = fs::read_to_string(root().join("docs/benchmarks.md")).unwrap();
    let sentence = format!("{missed} of {judged} figures miss a goal, {busy} of them in busy time");
    assert!(page.contains(&sentence), "docs/benchmarks.md does not say '{sentence}'");
}

/// Where the packet path lies.
const PACKET_PATH: [&str; 11] = [
    "crates/memory/src",
    "crates/virtqueue/src",
    "crates/vhost-device/src/stopped_at.rs",
    "crates/net-queues/src/device",
    "crates/net-queues/src/deliver",
    "crates/frame/src/frame_batch",
    "crates/frame/src/frame_batch.rs",
    "crates/pipeline/src",
    "crates/switch/src/forward.rs",
    "crates/switch/src/running_worker.rs",
    "crates/switch/src/tx_queues.rs",
];

/// Files in those folders that are no part of the packet path: tests, the control thread's work with files before and
/// after frames pass, and code for frames under flow tables only, because no switch of the run has flows.
const BESIDE: [&str; 14] = [
    "crates/memory/src/drop_queue.rs",
    "crates/memory/src/file_system.rs",
    "crates/memory/src/file_watch.rs",
    "crates/memory/src/kept_files.rs",
    "crates/memory/src/mapping.rs",
    "crates/memory/src/peer.rs",
    "crates/**/tests*",
    "crates/pipeline/src/testing.rs",
    "crates/pipeline/src/connections.rs",
    "crates/pipeline/src/flows.rs",
    "crates/pipeline/src/fragments.rs",
    "crates/pipeline/src/injected.rs",
    "crates/pipeline/src/upcalls.rs",
    "crates/pipeline/src/worker_flows.rs",
];

/// How often each line of code is in the packet path of a commit; comments and blank lines are not code.
fn packet_path(commit: &str) -> HashMap<String, i64> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["grep", "-h", "--no-color", "-e", "", commit, "--"]).args(PACKET_PATH);
    git.args(BESIDE.map(|path| format!(":(exclude,glob){path}")));
    git.args(BESIDE.map(|path| format!(":(exclude,glob){path}/**")));
    let output = git.output().unwrap();
    assert!(output.status.success(), "git knows no commit {commit}: {}", said(&output));
    let mut lines = HashMap::new();
    for line in
        said(&output).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"))
    {
        *lines.entry(line.to_owned()).or_insert(0) += 1;
    }
    lines
}

/// Lines that are in one and not in the other. A line that has moved to another file is in both.
fn changed(former: &HashMap<String, i64>, now: &HashMap<String, i64>) -> u64 {
    let all: HashSet<&String> = former.keys().chain(now.keys()).collect();
    let count = |lines: &HashMap<String, i64>, line| lines.get(line).copied().unwrap_or(0);
    all.into_iter().map(|line| count(former, line).abs_diff(count(now, line))).sum()
}

#[test]
fn the_packet_path_has_not_changed_much_since_the_newest_run() {
    /// Lines of code added and removed. The figures are then those of another program: `make bench-peers` makes new
    /// ones.
    const LIMIT: u64 = 1000;
    let run = Run::newest();
    for path in PACKET_PATH {
        assert!(root().join(path).exists(), "{path} has moved: name its new place here");
    }
    let (former, now) = (packet_path(&run.commit()), packet_path("HEAD"));
    let lines: i64 = now.values().sum();
    assert!(lines > 5 * LIMIT as i64, "only {lines} lines of code were found in the packet path");
    let changed = changed(&former, &now);
    assert!(
        changed <= LIMIT,
        "{changed} of {lines} lines of the packet path changed since {}, the newest run's commit",
        run.commit()
    );
}

#[test]
fn a_line_that_moved_has_not_changed() {
    let lines = |text: &str| {
        text.lines().fold(HashMap::new(), |mut lines, line| {
            *lines.entry(line.to_owned()).or_insert(0) += 1;
            lines
        })
    };
    assert_eq!(changed(&lines("a\nb\nb"), &lines("b\na\nb")), 0);
    assert_eq!(changed(&lines("a\nb\nb"), &lines("a\nb\nc")), 2);
}
