//! `/proc`, `/sys`, `/dev` and `/etc` below a root: of this machine, or of a recorded machine.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use measure::Failure;

use super::inside::Root;
use super::recorded::Recording;

/// The root of a host's files.
#[derive(Clone, Debug)]
pub struct HostTree {
    root: Root,
    recording: Option<Arc<Mutex<Recording>>>,
}

/// A file that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("reading {path}: {error}")]
pub struct Unread {
    path: String,
    error: io::Error,
}

impl Unread {
    /// Whether there is no such file. A file that exists and may not be read is not absent.
    pub fn is_absent(&self) -> bool {
        // ENODEV, EOPNOTSUPP and EIO are how drivers say that a file has nothing behind it; those are not absence.
        self.error.kind() == ErrorKind::NotFound
    }

    /// Whether the file belonged to a process that ended during the read.
    pub fn is_of_an_ended_process(&self) -> bool {
        self.error.raw_os_error() == Some(libc::ESRCH)
    }

    /// The error as a failure for the user.
    pub fn failure(&self) -> Failure {
        Failure::new(
            format!("reading {}", self.path),
            &self.error,
            "run as root on the host itself, with /proc and /sys mounted",
        )
    }
}

impl HostTree {
    /// This machine.
    pub fn live() -> Self {
        HostTree::at("/")
    }

    /// A machine whose files lie below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        HostTree { root: Root::new(root.into()), recording: None }
    }

    /// Returns this tree with a record of the files that are read from now on.
    pub fn recording(self) -> Self {
        HostTree { recording: Some(Arc::default()), ..self }
    }

    /// The recording of the files that were read so far, if the tree records.
    pub fn recorded(&self) -> Option<Recording> {
        let recording = self.recording.as_ref()?;
        Some(recording.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The error for a file that cannot be read. A recording keeps it too, unless the file does not exist.
    fn unread(&self, path: &str, error: io::Error) -> Unread {
        let unread = Unread { path: path.to_owned(), error };
        if !unread.is_absent() {
            self.note(|recording| recording.unread(path, &unread.error));
        }
        unread
    }

    fn note(&self, note: impl FnOnce(&mut Recording)) {
        if let Some(recording) = &self.recording {
            note(&mut recording.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Whether the tree is this machine: threads can be changed, and counters count.
    pub fn is_live(&self) -> bool {
        self.root.is_live()
    }

    /// The root of the files.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A file's text without trailing white space. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// There is no such file, or it may not be read. `Unread::is_absent` distinguishes the two.
    pub fn read(&self, path: &str) -> Result<String, Unread> {
        match self.root.read(path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                self.note(|recording| recording.file(path, &text));
                Ok(text)
            }
            Err(error) => Err(self.unread(path, error)),
        }
    }

    /// The values of the named variables in a process's environment. If several variables have the same name, the
    /// first counts, as for getenv(3). A recording keeps only these variables, one on each line, because others may
    /// be secrets.
    ///
    /// # Errors
    /// The process has ended, or its environment may not be read.
    pub fn environment<const N: usize>(
        &self,
        process: i32,
        names: [&str; N],
    ) -> Result<[Option<String>; N], Unread> {
        let path = format!("/proc/{process}/environ");
        let bytes = self.root.read(&path).map_err(|error| self.unread(&path, error))?;
        let text = String::from_utf8_lossy(&bytes);
        let separator = if text.contains('\0') { '\0' } else { '\n' };
        let value = |name: &str| {
            let mut variables = text.split(separator).filter_map(|variable| variable.split_once('='));
            variables.find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
        };
        let values = names.map(value);
        self.note(|recording| {
            let set = names
                .iter()
                .zip(&values)
                .filter_map(|(name, value)| Some(format!("{name}={}\n", value.as_ref()?)));
            recording.file(&path, set.collect::<String>().trim_end());
        });
        Ok(values)
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        let exists = self.root.has(path);
        if exists {
            self.note(|recording| recording.place(path));
        }
        exists
    }

    /// The names in a folder, with numbers sorted by value; empty if there is no such folder.
    pub fn names(&self, folder: &str) -> Vec<String> {
        self.sorted(folder).into_iter().map(|(name, _)| name).collect()
    }

    /// The names of the folders in a folder. A link to a folder is left out.
    pub fn folders(&self, folder: &str) -> Vec<String> {
        self.sorted(folder).into_iter().filter(|(_, is_folder)| *is_folder).map(|(name, _)| name).collect()
    }

    fn sorted(&self, folder: &str) -> Vec<(String, bool)> {
        let mut names = self.root.names(folder).unwrap_or_default();
        names.sort_by_cached_key(|(name, _)| {
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            (digits.parse::<u64>().unwrap_or(0), name.clone())
        });
        if !names.is_empty() {
            self.note(|recording| {
                // A link counts as what it leads to.
                let is_folder = |name: &str| self.root.is_folder(&format!("{folder}/{name}"));
                let names = names.iter().map(|(name, known)| (name.as_str(), *known || is_folder(name)));
                recording.folder(folder, names);
            });
        }
        names
    }

    /// The target of a link; `None` if there is no link.
    pub fn link(&self, path: &str) -> Option<PathBuf> {
        self.root.link(path).ok()
    }

    /// The kernel's messages, in the format of `/dev/kmsg`.
    ///
    /// # Errors
    /// `/dev/kmsg` is missing or may not be read: dmesg_restrict is 1 without CAP_SYSLOG.
    pub fn kernel_log(&self) -> Result<String, Unread> {
        const PATH: &str = "/dev/kmsg";
        let text = self.read_log(PATH)?;
        self.note(|recording| recording.file(PATH, text.trim_end()));
        Ok(text)
    }

    fn read_log(&self, path: &str) -> Result<String, Unread> {
        let failed = |error| self.unread(path, error);
        if !self.is_live() {
            let bytes = self.root.read(path).map_err(failed)?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        let mut file = self.root.reader(path).map_err(failed)?;
        let mut text = String::new();
        let mut record = [0; 8192];
        loop {
            match file.read(&mut record) {
                Ok(0) => return Ok(text),
                Ok(size) => text.push_str(&String::from_utf8_lossy(&record[..size])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(text),
                // Messages were overwritten meanwhile; the next read continues with the oldest remaining one.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// A model-specific register of a CPU (module `msr`).
    ///
    /// # Errors
    /// `/dev/cpu/N/msr` is missing (module `msr` is not loaded) or may not be read, or the CPU has no such register
    /// (EIO).
    pub fn register(&self, cpu: usize, number: u64) -> Result<u64, Unread> {
        let path = format!("/dev/cpu/{cpu}/msr");
        let mut value = [0; 8];
        let read = self.root.reader(&path).and_then(|file| file.read_exact_at(&mut value, number));
        read.map(|()| u64::from_le_bytes(value)).map_err(|error| self.unread(&path, error))
    }

    /// Writes a value and a newline to a file in one call, as the kernel requires.
    ///
    /// # Errors
    /// There is no such file, it may not be opened, or the kernel refuses the value.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        let value = format!("{value}\n");
        // A recorded tree has no kernel that fills a new cgroup with files, or that takes a value as a whole.
        let recorded = !self.is_live();
        let mut file = self.root.writer(path)?;
        file.write_all(value.as_bytes())?;
        if recorded { file.set_len(value.len() as u64) } else { Ok(()) }
    }

    /// Makes a folder; on this machine it is a cgroup.
    pub(super) fn make_folder(&self, path: &str) -> io::Result<()> {
        self.root.make_folder(path)
    }

    /// Removes an empty folder.
    pub(super) fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.root.remove_folder(path)
    }

    /// Removes a file or a link.
    pub(super) fn remove_file(&self, path: &str) -> io::Result<()> {
        self.root.remove_file(path)
    }

    /// Makes a link.
    pub(super) fn make_link(&self, target: &str, path: &str) -> io::Result<()> {
        self.root.make_link(target, path)
    }
}
