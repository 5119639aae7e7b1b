//! Whether a file that this process has closed is gone. The kernel reports that when nothing refers to the file any
//! more.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// One for all watches: a user may have 128 (fs.inotify.max_user_instances).
static WATCHES: Mutex<Option<Watches>> = Mutex::new(None);

struct Watches {
    inotify: OwnedFd,
    /// The flags by the kernel's watch number. Each file has one number, whatever the number of its watches.
    gone: BTreeMap<i32, Arc<AtomicBool>>,
}

fn lock() -> MutexGuard<'static, Option<Watches>> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes what all watches need, unless it exists.
///
/// # Errors
/// This user has reached the limit of inotify instances.
pub(crate) fn prepare() -> io::Result<()> {
    let mut watches = lock();
    if watches.is_none() {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        *watches = Some(Watches { inotify, gone: BTreeMap::new() });
    }
    Ok(())
}

/// Reads from the kernel which files are gone.
pub(crate) fn look() {
    if let Some(watches) = lock().as_mut() {
        watches.take_events();
    }
}

impl Watches {
    /// Takes what the kernel has said since.
    fn take_events(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut overflowed = false;
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => overflowed = true,
                Ok(event) => {
                    if let Some(gone) = self.gone.remove(&event.wd()) {
                        gone.store(true, Ordering::Relaxed);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if overflowed {
            self.look_at_all();
        }
    }

    /// Called if events were lost. The kernel's list of watches shows those that still exist.
    fn look_at_all(&mut self) {
        let Ok(listed) = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.inotify.as_raw_fd()))
        else {
            return;
        };
        let number =
            |line: &str| i32::from_str_radix(line.strip_prefix("inotify wd:")?.split(' ').next()?, 16).ok();
        let watched: Vec<i32> = listed.lines().filter_map(number).collect();
        self.gone.retain(|number, gone| {
            let is_watched = watched.contains(number);
            gone.store(!is_watched, Ordering::Relaxed);
            is_watched
        });
    }
}

/// A watched file.
#[derive(Debug)]
pub(crate) struct FileWatch {
    number: i32,
    gone: Arc<AtomicBool>,
}

impl FileWatch {
    /// Watches an open file, without keeping it open.
    ///
    /// # Errors
    /// This user may not read the file, or has too many watches.
    pub fn new(file: impl AsFd) -> io::Result<Self> {
        let mut watches = lock();
        let watches = watches.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let number = inotify::add_watch(&watches.inotify, path, WatchFlags::DELETE_SELF)?;
        let gone = Arc::clone(watches.gone.entry(number).or_default());
        Ok(FileWatch { number, gone })
    }

    /// Whether nothing referred to the file any more when [`look`] was last called.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        let mut watches = lock();
        let Some(watches) = watches.as_mut() else { return };
        // The two references are this value's and the table's.
        if Arc::strong_count(&self.gone) == 2 && watches.gone.remove(&self.number).is_some() {
            let _ = inotify::remove_watch(&watches.inotify, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truncate::tests::memfd;

    #[test]
    fn a_file_is_gone_with_its_last_holder() {
        prepare().unwrap();
        let file = memfd(4096);
        let (first, second) = (FileWatch::new(&file).unwrap(), FileWatch::new(&file).unwrap());
        let other = file.try_clone().unwrap();
        drop(file);
        look();
        assert!(!first.is_gone());
        drop((first, other));
        look();
        assert!(second.is_gone());
    }

    #[test]
    fn what_the_kernel_no_longer_lists_is_gone() {
        prepare().unwrap();
        let (kept, dropped) = (memfd(4096), memfd(4096));
        let (of_kept, of_dropped) = (FileWatch::new(&kept).unwrap(), FileWatch::new(&dropped).unwrap());
        drop(dropped);
        lock().as_mut().unwrap().look_at_all();
        assert!(of_dropped.gone.load(Ordering::Relaxed) && !of_kept.gone.load(Ordering::Relaxed));
    }
}
