//! What was there before each write, on the disk before the write.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::Failure;
use serde::{Deserialize, Serialize};

use super::knob::Knob;
use super::tree::HostTree;

/// Where it is kept if the user says nothing.
pub const PLACE: &str = "/var/lib/tautline/host-journal.jsonl";
const SCHEMA: &str = "tautline-host-journal/1";
/// Somebody else who has it for longer changes the host.
const LOCK_LIMIT: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// One write that was about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// For which rule.
    pub rule: String,
    /// What.
    #[serde(flatten)]
    pub knob: Knob,
    /// The value before; none where there was no such thing.
    pub found: Option<String>,
    /// The value after.
    pub writing: String,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line {
    Begin {
        schema: String,
        root: PathBuf,
        boot: Option<String>,
    },
    Change(Entry),
    /// The kernel did not take the last change of this.
    Refused {
        #[serde(flatten)]
        knob: Knob,
    },
    /// Rules that the host met once a plan was applied.
    Holds {
        rules: Vec<String>,
    },
}

/// An open journal, which no other process writes at the same time.
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// What an old journal says.
pub struct Story {
    /// Writes in their order.
    pub entries: Vec<Entry>,
    /// What the kernel refused to change.
    pub refused: Vec<Knob>,
    /// Rules that the host met when it was last applied to.
    pub holds: Vec<String>,
    /// Whether the host was booted anew since the first of them.
    pub rebooted: bool,
}

impl Journal {
    /// Opens or makes a journal for a host, and writes that something begins.
    pub fn begin(path: &Path, tree: &HostTree) -> Result<Self, Failure> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| failed("making the folder of", path, error))?;
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut journal = Journal { file: lock(path, file)?, path: path.to_owned() };
        let story = journal.story(tree)?;
        if story.rebooted {
            return Err(Failure::new(
                format!("going on with the journal {}", path.display()),
                "it is of an earlier boot, whose changes are gone",
                "call `tautline host undo`, which puts it away, then apply again",
            ));
        }
        journal.add(&Line::Begin {
            schema: SCHEMA.into(),
            root: tree.root().to_owned(),
            boot: boot(tree),
        })?;
        // The name must be on the disk too.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| failed("syncing the folder of", path, error))?;
        Ok(journal)
    }

    /// Opens one that is there; none where there is none.
    pub fn open(path: &Path) -> Result<Option<Self>, Failure> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            file => Ok(Some(Journal { file: lock(path, file)?, path: path.to_owned() })),
        }
    }

    /// Writes down what is about to be written. When this returns, it is on the disk.
    pub fn record(&mut self, entry: Entry) -> Result<(), Failure> {
        self.add(&Line::Change(entry))
    }

    /// Writes down that the kernel did not take a change.
    pub fn refused(&mut self, knob: &Knob) -> Result<(), Failure> {
        self.add(&Line::Refused { knob: knob.clone() })
    }

    /// Writes down which rules the host meets now.
    pub fn holds(&mut self, rules: Vec<String>) -> Result<(), Failure> {
        self.add(&Line::Holds { rules })
    }

    /// What it says. A last line that a crash cut short stands for a write that never began.
    pub fn story(&mut self, tree: &HostTree) -> Result<Story, Failure> {
        let mut text = Vec::new();
        self.file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.read_to_end(&mut text))
            .map_err(|error| failed("reading", &self.path, error))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        // The next line begins where the last whole one ends.
        self.file
            .set_len(whole as u64)
            .and_then(|()| self.file.seek(SeekFrom::End(0)))
            .map_err(|error| failed("reading", &self.path, error))?;
        let mut story =
            Story { entries: Vec::new(), refused: Vec::new(), holds: Vec::new(), rebooted: false };
        for (number, line) in text[..whole].split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let line = serde_json::from_slice(line).map_err(|error| {
                failed(&format!("reading line {} of", number + 1), &self.path, std::io::Error::other(error))
            })?;
            match line {
                Line::Change(entry) => {
                    // A later try counts.
                    story.refused.retain(|knob| *knob != entry.knob);
                    story.entries.push(entry);
                }
                Line::Refused { knob } => story.refused.push(knob),
                Line::Holds { rules } => story.holds = rules,
                Line::Begin { root, boot: then, .. } => {
                    if root != tree.root() {
                        return Err(Failure::new(
                            format!("reading the journal {}", self.path.display()),
                            format!("it is of the host below {}", root.display()),
                            format!("give --root {}, or another --journal", root.display()),
                        ));
                    }
                    story.rebooted |= then != boot(tree);
                }
            }
        }
        Ok(story)
    }

    /// Takes the journal away: there is nothing left to put back.
    pub fn remove(self) -> Result<(), Failure> {
        fs::remove_file(&self.path).map_err(|error| failed("removing", &self.path, error))
    }

    fn add(&mut self, line: &Line) -> Result<(), Failure> {
        let mut text = serde_json::to_string(line).expect("plain data");
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data())
            .map_err(|error| failed("writing", &self.path, error))
    }
}

fn lock(path: &Path, file: std::io::Result<File>) -> Result<File, Failure> {
    let file = file.map_err(|error| failed("opening", path, error))?;
    let until = Instant::now() + LOCK_LIMIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A child of whoever had it holds it too, until it has become another program.
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(
                    format!("locking the journal {}", path.display()),
                    "another tautline changes this host right now",
                    "wait until it has ended",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking", path, error)),
        }
    }
}

fn failed(doing: &str, path: &Path, error: std::io::Error) -> Failure {
    Failure::new(
        format!("{doing} the journal {}", path.display()),
        error,
        "nothing was changed without it; run as root, or name a file with --journal",
    )
}

/// Tells one boot from another.
fn boot(tree: &HostTree) -> Option<String> {
    tree.read("/proc/sys/kernel/random/boot_id").ok()
}
