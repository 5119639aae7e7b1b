//! The text of the configuration file, read so that neither the file nor its writer keeps a running switch waiting.
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, open};

/// The most bytes of a file: far more than 1,024 ports need.
const MOST_BYTES: u64 = 4 << 20;

/// A file must stay the same for this long before it is used: a file that is being written may be valid at any
/// moment.
const STILL: Duration = Duration::from_millis(250);

/// The most reads of a file that keeps changing.
const MOST_LOOKS: u32 = 20;

/// The content of a file, and its identity.
#[derive(PartialEq)]
struct Found {
    text: String,
    /// Device, inode, and the time of the last change.
    which: (u64, u64, i64, i64),
}

/// Reads a file as it is now.
///
/// # Errors
/// The file cannot be read, is no regular file, is longer than 4 MiB or is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    read_up_to(path, MOST_BYTES)
}

/// Reads a file as it is now that has at most so many bytes, a number of MiB.
///
/// # Errors
/// The file cannot be read, is no regular file, is longer or is not UTF-8.
pub fn read_up_to(path: &Path, most_bytes: u64) -> io::Result<String> {
    find(path, most_bytes).map(|found| found.text)
}

fn find(path: &Path, most_bytes: u64) -> io::Result<Found> {
    // A pipe without a writer opens at once with NONBLOCK, and is refused below.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !metadata.is_file() {
        return refused("it is no regular file".to_owned());
    }
    let mut text = String::new();
    file.take(most_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most_bytes {
        return refused(format!("it is longer than {} MiB", most_bytes >> 20));
    }
    Ok(Found { text, which: (metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec()) })
}

/// Reads a file once it is written: it is the same before and after a pause.
fn read_when_still(path: &Path, mut pause: impl FnMut()) -> io::Result<String> {
    let mut before = find(path, MOST_BYTES)?;
    for _ in 0..MOST_LOOKS {
        pause();
        let found = find(path, MOST_BYTES)?;
        if found == before {
            return Ok(found.text);
        }
        before = found;
    }
    Err(io::Error::other("it changes all the time; put a new one in its place with rename (mv)"))
}

/// The result of a thread's reading.
type Answer = Arc<Mutex<Option<io::Result<String>>>>;

/// Reads a file in a separate thread: a file system that does not answer delays only that thread.
pub struct Reader {
    answer: Answer,
    done: Arc<OwnedFd>,
    is_reading: bool,
    /// [`Reader::begin`] was called while a thread was reading.
    again: bool,
}

impl Reader {
    /// A reader without a file yet.
    ///
    /// # Errors
    /// The kernel refuses an eventfd.
    pub fn new() -> io::Result<Self> {
        let done = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Reader { answer: Answer::default(), done, is_reading: false, again: false })
    }

    /// Readable when [`Reader::take`] has something.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// Starts a thread that reads the file. If one is reading already, the file is read once more after it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin(&mut self, path: &Path) -> io::Result<()> {
        if self.is_reading {
            self.again = true;
            return Ok(());
        }
        let (path, answer, done) = (path.to_owned(), Arc::clone(&self.answer), Arc::clone(&self.done));
        let read = move || {
            let read = read_when_still(&path, || thread::sleep(STILL));
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
            // The counter of an eventfd that is read after each reading does not overflow.
            let _ = rustix::io::write(&done, &1u64.to_ne_bytes());
        };
        thread::Builder::new().name("configuration".to_owned()).spawn(read)?;
        self.is_reading = true;
        Ok(())
    }

    /// The text that was read. `None` if it is not there yet, or if [`Reader::begin`] was called again meanwhile and
    /// the file is read once more.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file, is longer than 4 MiB, is not UTF-8, or changed all the time.
    /// Or the thread that reads the file once more cannot be started.
    pub fn take(&mut self, path: &Path) -> Option<io::Result<String>> {
        let _ = rustix::io::read(&self.done, &mut [0u8; 8]);
        let read = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.is_reading = false;
        if !std::mem::take(&mut self.again) {
            return Some(read);
        }
        self.begin(path).err().map(Err)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_regular_files_of_a_sensible_length_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let refused = |said: &str| {
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            fs::remove_file(&path).unwrap();
        };
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        refused("no regular file");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        refused("no regular file");
        File::create(&path).unwrap().set_len(MOST_BYTES + 1).unwrap();
        refused("longer than 4 MiB");
        fs::write(&path, [0xff]).unwrap();
        refused("UTF-8");
        fs::write(&path, "spin = 3").unwrap();
        assert_eq!(read(&path).unwrap(), "spin = 3");
    }

    #[test]
    fn a_file_is_read_when_its_writer_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let lines = ["one", "two", "three"];
        fs::write(&path, "").unwrap();
        let mut written = 0;
        let read = read_when_still(&path, || {
            written = lines.len().min(written + 1);
            if written < lines.len() || fs::read_to_string(&path).unwrap() != lines.concat() {
                fs::write(&path, lines[..written].concat()).unwrap();
            }
        });
        assert_eq!(read.unwrap(), "onetwothree");
        // Of the same length, but another file; and one that is never done.
        fs::write(&path, "1").unwrap();
        let other = folder.path().join("other");
        let mut is_new = false;
        let read = read_when_still(&path, || {
            if !std::mem::replace(&mut is_new, true) {
                fs::write(&other, "2").unwrap();
                fs::rename(&other, &path).unwrap();
            }
        });
        assert_eq!(read.unwrap(), "2");
        let mut number = 0;
        let read = read_when_still(&path, || {
            number += 1;
            fs::write(&path, number.to_string()).unwrap();
        });
        assert!(read.unwrap_err().to_string().contains("all the time"));
    }
}
