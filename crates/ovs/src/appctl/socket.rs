//! The socket, and the pidfile through which `ovs-appctl` finds it.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

/// The name of the program whose place is taken.
const PROGRAM: &str = "ovs-vswitchd";
/// The socket's mode: for its user and group, as ovs-vswitchd's.
const MODE: u32 = 0o770;

/// Why the socket for `ovs-appctl` cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process has the pidfile.
    #[error(
        "{pidfile} is held by process {process}: is ovs-vswitchd running? Stop it, and ovs-appctl reaches the switch \
         once this one is started again"
    )]
    Held {
        /// The pidfile.
        pidfile: PathBuf,
        /// The process that holds the pidfile.
        process: i32,
    },
    /// The system refused a file.
    #[error(
        "{action} {path} for ovs-appctl: {source}; let this user write in the folder of the database's socket"
    )]
    System {
        /// What was tried.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    move |source| SocketError::System { action, path: path.to_owned(), source }
}

/// The socket and its pidfile. Both are removed when this is dropped, unless another process has replaced them.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    pidfile: PathBuf,
    /// The pidfile, locked while it is open. The lock shows `ovs-appctl` that the process is running.
    pid: File,
}

impl Socket {
    /// Listens in this folder. A process that takes over from a running switch takes its pidfile too.
    ///
    /// # Errors
    /// Another process holds the pidfile, or the system refuses a file.
    pub fn open(folder: &Path, takes_over: bool) -> Result<Self, SocketError> {
        let name = |process: &str| folder.join(format!("{PROGRAM}.{process}.ctl"));
        let pidfile = folder.join(format!("{PROGRAM}.pid"));
        match holder(&pidfile).map_err(failed("reading", &pidfile))? {
            Some(process) if !takes_over && process != process::id().cast_signed() => {
                return Err(SocketError::Held { pidfile, process });
            }
            Some(_) => {}
            // A socket of a process that was killed.
            None => {
                let left = fs::read_to_string(&pidfile).unwrap_or_default();
                if left.trim().parse::<u32>().is_ok() {
                    let _ = fs::remove_file(name(left.trim()));
                }
            }
        }
        let own = process::id().to_string();
        let path = name(&own);
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed("listening at", &path))?;
        let restrict = || {
            listener.set_nonblocking(true)?;
            fs::set_permissions(&path, Permissions::from_mode(MODE))
        };
        let pid = restrict().map_err(failed("setting the mode of", &path)).and_then(|()| {
            locked(&pidfile, &own)
                .map_err(failed("writing", &pidfile))
                .inspect_err(|_| drop(fs::remove_file(&path)))
        });
        Ok(Socket { listener, path: path.clone(), pidfile, pid: pid? })
    }

    /// The listening socket.
    ///
    /// # Errors
    /// The limit of open files is reached.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

/// The process that has locked a file, if there is one.
fn holder(pidfile: &Path) -> io::Result<Option<i32>> {
    let file = match File::open(pidfile) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let held = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock))?;
    Ok(held.map(|lock| lock.pid.map_or(0, |process| process.as_raw_nonzero().get())))
}

/// Writes the pidfile beside its place, locks it and moves it there: no process sees it without its lock.
fn locked(pidfile: &Path, process: &str) -> io::Result<File> {
    let beside = pidfile.with_extension(format!("pid.{process}"));
    let write = || {
        let mut file = File::create(&beside)?;
        writeln!(file, "{process}")?;
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&beside, pidfile)?;
        Ok(file)
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let identity = |data: fs::Metadata| (data.dev(), data.ino());
        if let (Ok(there), Ok(own)) = (fs::symlink_metadata(&self.pidfile), self.pid.metadata())
            && identity(there) == identity(own)
        {
            let _ = fs::remove_file(&self.pidfile);
        }
    }
}
