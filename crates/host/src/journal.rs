//! The journal of changes: the old value is on the disk before a new value is written.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::Failure;
use serde::{Deserialize, Serialize};

use super::knob::Knob;
use super::tree::HostTree;

/// The path of the journal if the user names none.
pub const PLACE: &str = "/var/lib/tautline/host-journal.jsonl";
const SCHEMA: &str = "tautline-host-journal/1";
/// How every version's journals begin.
const BEGIN: &str = r#"{"line":"begin","schema":"tautline-host-journal/"#;
/// A process that holds the lock for longer is changing the host.
const LOCK_LIMIT: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// One write that was about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The rule that the change is for.
    pub rule: String,
    /// The knob that is changed.
    #[serde(flatten)]
    pub knob: Knob,
    /// The value before the write; `None` if the setting did not exist.
    pub found: Option<String>,
    /// The value after the write.
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
    /// The kernel refused the last change of this knob.
    Refused {
        #[serde(flatten)]
        knob: Knob,
    },
    /// The rules that the host met after a plan was applied.
    Holds {
        rules: Vec<String>,
    },
}

/// An open journal, which no other process writes at the same time.
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// The contents of a journal.
pub struct Story {
    /// The writes in their order.
    pub entries: Vec<Entry>,
    /// The knobs that the kernel refused to change.
    pub refused: Vec<Knob>,
    /// The rules that the host met after the last plan was applied.
    pub holds: Vec<String>,
    /// Whether the host was rebooted since the first of these writes.
    pub rebooted: bool,
}

impl Journal {
    /// Opens or makes a journal for a host, and records the start of a series of changes.
    ///
    /// # Errors
    /// The folder or the file cannot be made, opened, locked within 500 ms, written or synced; the file is not a
    /// journal of this version; or it belongs to another host or boot.
    pub fn begin(path: &Path, tree: &HostTree) -> Result<Self, Failure> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| failed("making the folder of", path, error))?;
        }
        let file = lock(path, || open_file(path, OpenOptions::new().create(true)))?;
        let mut journal = Journal { file, path: path.to_owned() };
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

    /// Opens the journal at a path. Returns `None` if there is no file, or an empty one.
    ///
    /// # Errors
    /// The file is not a regular file, may not be opened for writing, or cannot be locked within 500 ms because
    /// another process holds it.
    pub fn open(path: &Path) -> Result<Option<Self>, Failure> {
        let mut is_absent = false;
        let file = lock(path, || {
            let file = open_file(path, &mut OpenOptions::new());
            is_absent = matches!(&file, Err(error) if error.kind() == ErrorKind::NotFound);
            file
        });
        match file {
            Err(_) if is_absent => Ok(None),
            Err(failure) => Err(failure),
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.len() == 0) => Ok(None),
            Ok(file) => Ok(Some(Journal { file, path: path.to_owned() })),
        }
    }

    /// Records a change that is about to be made. When this returns, the line is on the disk.
    ///
    /// # Errors
    /// The line cannot be written to the journal's file or synced to the disk: no space, or an I/O error.
    pub fn record(&mut self, entry: Entry) -> Result<(), Failure> {
        self.add(&Line::Change(entry))
    }

    /// Records that the kernel refused a change.
    ///
    /// # Errors
    /// The line cannot be written to the journal's file or synced to the disk: no space, or an I/O error.
    pub fn refused(&mut self, knob: &Knob) -> Result<(), Failure> {
        self.add(&Line::Refused { knob: knob.clone() })
    }

    /// Records which rules the host meets now.
    ///
    /// # Errors
    /// The line cannot be written to the journal's file or synced to the disk: no space, or an I/O error.
    pub fn holds(&mut self, rules: Vec<String>) -> Result<(), Failure> {
        self.add(&Line::Holds { rules })
    }

    /// Reads the whole journal. A last line that a crash cut short belongs to a write that never began: the file is
    /// truncated before that line. A file that is not a journal of this version is not changed.
    ///
    /// # Errors
    /// The file cannot be read or truncated, is not a journal of this version, or belongs to another host.
    pub fn story(&mut self, tree: &HostTree) -> Result<Story, Failure> {
        let text = self.text().map_err(|error| failed("reading", &self.path, error))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if !text.is_empty() && !text.starts_with(BEGIN.as_bytes()) {
            return Err(self.is_other(1, format!("it does not begin with {BEGIN}")));
        }
        let story = self.parse(&text[..whole], tree)?;
        // The next line begins where the last whole one ends.
        self.file
            .set_len(whole as u64)
            .and_then(|()| self.file.seek(SeekFrom::End(0)))
            .map_err(|error| failed("reading", &self.path, error))?;
        Ok(story)
    }

    /// All of a file that begins as a journal does; of others the beginning.
    fn text(&mut self) -> std::io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        (&self.file).take(BEGIN.len() as u64).read_to_end(&mut text)?;
        if text == BEGIN.as_bytes() {
            self.file.read_to_end(&mut text)?;
        }
        Ok(text)
    }

    fn parse(&self, text: &[u8], tree: &HostTree) -> Result<Story, Failure> {
        let mut story =
            Story { entries: Vec::new(), refused: Vec::new(), holds: Vec::new(), rebooted: false };
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            match serde_json::from_slice(line).map_err(|error| self.is_other(number + 1, error))? {
                Line::Change(entry) => {
                    // A later try counts.
                    story.refused.retain(|knob| *knob != entry.knob);
                    story.entries.push(entry);
                }
                Line::Refused { knob } => story.refused.push(knob),
                Line::Holds { rules } => story.holds = rules,
                Line::Begin { schema, .. } if schema != SCHEMA => {
                    return Err(self.is_other(number + 1, format!("its schema is {schema}, not {SCHEMA}")));
                }
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

    fn is_other(&self, line: usize, reason: impl std::fmt::Display) -> Failure {
        Failure::new(
            format!("reading line {line} of the journal {}", self.path.display()),
            format!("this version of `tautline host apply` has not written it: {reason}"),
            format!("the file is left as it is; name another with --journal (the default is {PLACE})"),
        )
    }

    /// Removes the journal's file, after all values were restored.
    ///
    /// # Errors
    /// The file cannot be removed: it does not exist any more, or its folder may not be written.
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

/// Opens a regular file to read and to write. A pipe or a device is never waited for.
fn open_file(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    let file = options.read(true).write(true).truncate(false).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is no regular file")),
    }
}

/// Opens and locks the file of a name. The process that had the lock before may have removed the file after it was
/// opened here. The name is then opened again, because no `undo` would find anything in the removed file.
fn lock(path: &Path, mut open: impl FnMut() -> std::io::Result<File>) -> Result<File, Failure> {
    let until = Instant::now() + LOCK_LIMIT;
    loop {
        let file = open().map_err(|error| failed("opening", path, error))?;
        let is_over = Instant::now() >= until;
        match file.try_lock() {
            Ok(()) if is_at(&file, path).map_err(|error| failed("opening", path, error))? => return Ok(file),
            // A child of the process that had the lock holds it too, until the child executes another program.
            Ok(()) | Err(TryLockError::WouldBlock) if !is_over => std::thread::sleep(LOCK_PAUSE),
            Ok(()) | Err(TryLockError::WouldBlock) => {
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

/// Whether a path still leads to this open file.
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The other process's `undo` removes the journal after it was opened here and before it is locked.
    #[test]
    fn a_journal_that_was_removed_before_it_was_locked_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut times = 0;
        let file = lock(&path, || {
            let file = open_file(&path, OpenOptions::new().create(true));
            times += 1;
            match times {
                1 => fs::remove_file(&path)?,
                // Removed, and made again by a third.
                2 => fs::rename(&path, folder.path().join("other")).and_then(|()| fs::write(&path, ""))?,
                _ => {}
            }
            file
        })
        .unwrap();
        assert_eq!(times, 3);
        assert_eq!(file.metadata().unwrap().ino(), fs::metadata(&path).unwrap().ino());
    }
}
