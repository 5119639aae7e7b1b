//! Runs every command of docs/plug-in-a-guest.md, as an ordinary user, in the order in which they stand
//! there, and compares what the page shows with what was printed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use frame::DropReason;
use peers::guest::{Boot, Session};
use port::spec::PortSpec;
use rustix::process::{Pid, Signal, kill_process};

/// For one block, guests that boot on an emulated CPU included.
const LIMIT: Duration = Duration::from_secs(180);
/// What begins the line that the shell writes when a block has ended.
const ENDED: &str = "::: ended";

/// One fenced block: what stands behind the fence, and its text.
#[derive(Debug, PartialEq)]
struct Block {
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.to_owned(), text: String::new() }),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed: {open:?}");
    found
}

/// Whether a line that was printed is the line of the page: `…` stands for anything, and a run of spaces for
/// another.
fn fits(shown: &str, printed: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, printed) = (plain(shown), plain(printed));
    let parts: Vec<&str> = shown.split('…').map(str::trim).collect();
    let [first, middle @ .., last] = &parts[..] else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The first line of the page that was not printed behind those before it.
fn missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines();
    shown.lines().find(|shown| !lines.any(|line| fits(shown, line)))
}

#[test]
fn what_is_shown_is_compared_line_by_line() {
    let printed = "noise\n3 packets,  time 2003ms\nworker 0: 1.0 % busy, 2 sleeps\n";
    assert_eq!(missing("3 packets, time …ms\nworker 0: … % busy, … sleeps\n", printed), None);
    assert_eq!(missing("2 packets, time …ms\n", printed), Some("2 packets, time …ms"));
    let swapped = "worker 0: … % busy, … sleeps\n3 packets, time …ms\n";
    assert_eq!(missing(swapped, printed), Some("3 packets, time …ms"));
    assert_eq!(missing("3 packets\n", printed), Some("3 packets"));
}

/// The reader's shell: an ordinary user's bash that stops at the first command that fails.
struct Shell {
    bash: Child,
    lines: Receiver<String>,
    folder: tempfile::TempDir,
    /// Printed since the last block began.
    printed: String,
    blocks: usize,
}

impl Shell {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        // The binary may lie where another user cannot look.
        fs::copy(env!("CARGO_BIN_EXE_tautline"), folder.path().join("tautline")).unwrap();
        let ordinary = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let root = peers::requirements::is_root();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("setpriv")
            .args(if root { &ordinary[..] } else { &[] })
            .args(["--pdeathsig", "KILL", "--", "bash", "-e"])
            .env("PATH", path)
            .env("TMPDIR", folder.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv (apt-get install util-linux) and bash");
        let (send, lines) = channel();
        let output = BufReader::new(bash.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        writeln!(bash.stdin.as_ref().unwrap(), "exec 2>&1").unwrap();
        Shell { bash, lines, folder, printed: String::new(), blocks: 0 }
    }

    /// Reads until `done` is content with what was printed since the last block began.
    fn read(&mut self, limit: Duration, mut done: impl FnMut(&str) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        while !done(&self.printed) {
            match self.lines.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => self.printed += &format!("{line}\n"),
                // What runs in the background keeps the pipe open when the shell has ended.
                Err(_) if Instant::now() > deadline => return false,
                Err(_) if self.bash.try_wait().unwrap().is_some() => return false,
                Err(_) => {}
            }
        }
        true
    }

    /// Runs one block to its end; what runs in the background goes on.
    fn run(&mut self, text: &str) {
        self.blocks += 1;
        self.printed.clear();
        let file = self.folder.path().join(format!("block{}", self.blocks));
        fs::write(&file, text).unwrap();
        let end = format!("{ENDED} {}", self.blocks);
        writeln!(self.bash.stdin.as_ref().unwrap(), ". {} </dev/null\necho '{end}'", file.display()).unwrap();
        let ended = self.read(LIMIT, |printed| printed.lines().any(|line| line == end));
        assert!(ended, "this did not end well:\n{text}\nprinted:\n{}", self.printed);
    }
}

impl Shell {
    /// Processes of the page other than the shell, under any parent: all have inherited the folder's name.
    fn processes(&self) -> Vec<i32> {
        let ours = format!("TMPDIR={}", self.folder.path().display());
        let ids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_ours = |id: &i32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == ours.as_bytes())
        };
        ids.filter(|id| *id != self.bash.id() as i32).filter(is_ours).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for process in self.processes() {
            let _ = kill_process(Pid::from_raw(process).unwrap(), Signal::KILL);
        }
        let _ = self.bash.kill();
        let _ = self.bash.wait();
    }
}

/// The guests of the page: the arguments that boot them, and the guests that have booted.
struct Guests {
    boots: [Boot; 2],
    sessions: [Option<Session>; 2],
}

impl Guests {
    /// What a reader without KVM chooses. The page's block may set nothing else.
    fn choice(&self, block: &str) -> String {
        let names = block.lines().map(|line| line.split_once('=').expect("an assignment").0);
        assert_eq!(names.collect::<Vec<_>>(), ["ACCEL", "CARD", "GUEST", "OTHER"]);
        let [one, other] = self.boots.each_ref().map(|boot| boot.arguments().join(" "));
        format!("ACCEL=tcg\nCARD=virtio-net-pci,vectors=0\nGUEST=\"{one}\"\nOTHER=\"{other}\"\n")
    }

    fn run(&mut self, number: usize, text: &str) -> String {
        let session = &mut self.sessions[number];
        let session = session.get_or_insert_with(|| self.boots[number].wait(LIMIT).unwrap());
        session.run_within(&format!("set -e\n{text}"), LIMIT).unwrap().expect_success()
    }
}

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plug-in-a-guest.md");
    fs::read_to_string(page).unwrap()
}

#[test]
fn every_option_and_drop_reason_has_its_row() {
    let page = page().replace(r"\|", "/");
    let help = Command::new(env!("CARGO_BIN_EXE_tautline")).args(["switch", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for kind in ["vhost-user", "virtio-user", "tap", "pcap"] {
        // Refused with the list of what there is.
        let refused = format!("{kind}:x,no-such-option=1").parse::<PortSpec>().unwrap_err().to_string();
        let options = refused.split_once("it has ").expect(&refused).1;
        for option in options.split(", ") {
            let rows =
                page.lines().filter(|row| row.starts_with("| `") && row.contains(&format!("`{option}")));
            let of_kind = |row: &str| {
                let of = row.split('|').nth(2).unwrap();
                of.contains(&format!("`{kind}`")) != of.contains("all but")
            };
            assert!({ rows }.any(of_kind), "no row of the page has {option} of {kind}");
            assert!(help.contains(option), "{option} of {kind} is not in --help");
        }
    }
    for reason in DropReason::ALL {
        let row = format!("| {reason} |");
        assert!(page.lines().any(|line| line.starts_with(&row)), "no row for '{reason}'");
    }
}

#[test]
fn every_command_of_the_page_does_what_the_page_says() {
    let mut guests =
        Guests { boots: [Boot::prepare().unwrap(), Boot::prepare().unwrap()], sessions: [None, None] };
    let mut shell = Shell::start();
    // Where the last block ran.
    let mut in_guest: Option<String> = None;
    for Block { info, text } in blocks(&page()) {
        match &*info {
            "sh choice" => {
                let choice = guests.choice(&text);
                shell.run(&choice);
                in_guest = None;
            }
            "sh host" => {
                // Guests are ended on the host.
                if text.contains("kill $") {
                    guests.sessions = [None, None];
                }
                shell.run(&text);
                in_guest = None;
            }
            "sh guest" => in_guest = Some(guests.run(0, &text)),
            "sh other" => in_guest = Some(guests.run(1, &text)),
            "text" => {
                let printed = match &in_guest {
                    Some(printed) => printed.clone(),
                    None => {
                        // What runs in the background prints when it likes.
                        shell.read(Duration::from_secs(60), |printed| missing(&text, printed).is_none());
                        shell.printed.clone()
                    }
                };
                if let Some(line) = missing(&text, &printed) {
                    panic!("the page shows\n{line}\nbut this was printed:\n{printed}");
                }
            }
            // Parsed alone, by `documentation` of the repository's tests.
            "sh" => {}
            other => panic!("a block of an unknown kind: {other}"),
        }
    }
    // What was killed with its parent ends a moment later.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !shell.processes().is_empty() {
        assert!(Instant::now() < deadline, "still running: {:?}", shell.processes());
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = fs::read_dir(shell.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("tmp.")).collect();
    assert!(left.is_empty(), "the page leaves {left:?} behind");
}
