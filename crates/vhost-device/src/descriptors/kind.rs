//! Finds the kind of a descriptor without a call that its file system has to answer, because such a call may wait.
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, StatxFlags, fcntl_get_seals, statx};
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;

use crate::event_fd;

/// Local file systems: `fstat` and `close` of a file on them ask no other host or program.
const LOCAL: [&str; 10] =
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "xfs", "zfs"];

/// A file system that ordinary users can mount in their own namespaces, over any other. It is accepted as a local file
/// system only if it is mounted in this process's namespace.
const STACKED: &str = "overlay";

/// Bytes of a peer's list of mounts that are read: a peer may have made a hundred thousand.
const LONGEST_LIST: u64 = 1 << 20;

/// Null, zero, random and so on (devices.txt of Linux). Other devices have drivers that may wait: a terminal waits for
/// its output.
const MEMORY_DEVICES: u32 = 1;

/// The kinds of descriptor that a peer may pass, and those that are refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file in memory or on a local file system. Closing it frees its pages, and waits for no other program.
    File,
    /// An eventfd, a Unix socket, a pipe, …. Its peer can make closing it take long.
    Other,
    /// A file for which even `fstat` may wait for a program or host. The text is its name.
    Refused(String),
}

/// Whether the descriptor is a file, on any file system.
pub(super) fn is_file(fd: BorrowedFd<'_>) -> bool {
    fcntl_get_seals(fd).is_ok() || matches!(type_of(fd), Some((FileType::RegularFile, _)))
}

/// The kind of the descriptor `fd`. It was received over `socket`.
pub(super) fn of(fd: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> Kind {
    // Files in memory, and only those, have seals (`memfd_file_seals_ptr`, mm/memfd.c).
    if fcntl_get_seals(fd).is_ok() {
        return Kind::File;
    }
    let Ok(name) = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())) else {
        // No /proc here.
        let known = matches!(event_fd::is_event_fd(fd), Ok(true)) || is_unix_socket(fd);
        return match known {
            true => Kind::Other,
            false => Kind::Refused("a descriptor of an unknown kind".to_owned()),
        };
    };
    let name = name.to_string_lossy();
    // The kernel's own names, which no file's path can be: paths begin with a slash.
    if name.starts_with("anon_inode:") || name.starts_with("pipe:") || is_unix_socket(fd) {
        return Kind::Other;
    }
    match type_of(fd).filter(|_| name.starts_with('/')) {
        Some((FileType::RegularFile | FileType::Directory, _)) => not_local(fd, || mounts_of_peer(socket))
            .map_or(Kind::File, |why| Kind::Refused(format!("{name}, {why}"))),
        Some((FileType::CharacterDevice, MEMORY_DEVICES)) => Kind::Other,
        _ => Kind::Refused(name.into_owned()),
    }
}

fn is_unix_socket(fd: BorrowedFd<'_>) -> bool {
    socket_domain(fd).is_ok_and(|domain| domain == AddressFamily::UNIX)
}

/// The type of a file, and the major number of a device, as the kernel knows them already.
fn type_of(fd: BorrowedFd<'_>) -> Option<(FileType, u32)> {
    let status = statx(fd, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some((FileType::from_raw_mode(status.stx_mode.into()), status.stx_rdev_major))
}

/// Why a file is not taken for one on a local file system. The mount may be one of this process's namespace, or of its
/// peer's: a container's, a service's. The kernel gives no two mounts the same number.
fn not_local(fd: BorrowedFd<'_>, mounts_of_peer: impl FnOnce() -> Option<String>) -> Option<String> {
    let unknown = || Some("of which /proc does not show the file system".to_owned());
    let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())) else {
        return unknown();
    };
    let Some(mount) = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim) else {
        return unknown();
    };
    let find = |mounts: Option<String>| file_system(&mounts?, mount).map(str::to_owned);
    if let Some(name) = find(fs::read_to_string("/proc/self/mountinfo").ok()) {
        return (!LOCAL.contains(&name.as_str())).then(|| format!("on the file system {name}"));
    }
    match find(mounts_of_peer()) {
        Some(name) if LOCAL.contains(&name.as_str()) && name != STACKED => None,
        Some(name) => Some(format!("on a file system {name} that is not mounted where the switch runs")),
        None => Some("on a file system that is not mounted where the switch runs".to_owned()),
    }
}

/// The mounts of the process that is connected, as the kernel lists them.
fn mounts_of_peer(socket: BorrowedFd<'_>) -> Option<String> {
    let process = linux::peer::peer(socket).ok()?.process?;
    let file = File::open(format!("/proc/{}/mountinfo", process.as_raw_nonzero())).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST_LIST).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// The file system of a mount, by its number: proc_pid_mountinfo(5).
fn file_system<'a>(mounts: &'a str, mount: &str) -> Option<&'a str> {
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(mount))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn kind(fd: impl Into<OwnedFd>) -> Kind {
        let (socket, _peer) = UnixStream::pair().unwrap();
        of(fd.into().as_fd(), socket.as_fd())
    }

    #[test]
    fn what_guests_pass_is_taken() {
        assert_eq!(kind(memory::sealed_memfd(c"test", 4096).unwrap()), Kind::File);
        assert_eq!(kind(crate::event_fd::EventFd::new().unwrap().share().unwrap()), Kind::Other);
        assert_eq!(kind(UnixStream::pair().unwrap().0), Kind::Other);
        assert_eq!(kind(std::io::pipe().unwrap().0), Kind::Other);
        assert_eq!(kind(File::open("/dev/zero").unwrap()), Kind::Other, "refused for what it is");
        if let Ok(file) = tempfile::tempfile_in("/dev/shm") {
            assert_eq!(kind(file), Kind::File);
        }
    }

    #[test]
    fn sockets_of_the_network_and_devices_may_take_long() {
        let refused = |kind: Kind| match kind {
            Kind::Refused(name) => name,
            other => panic!("{other:?}"),
        };
        let socket = refused(kind(TcpListener::bind("127.0.0.1:0").unwrap()));
        assert!(socket.starts_with("socket:["), "{socket}");
        let terminal = refused(kind(File::open("/dev/ptmx").unwrap()));
        assert!(terminal.ends_with("ptmx"), "{terminal}");
        // The kernel's, and not on the list.
        let file = File::open("/proc/self/maps").unwrap();
        let maps = refused(kind(file));
        assert!(maps.ends_with("/maps, on the file system proc"), "{maps}");
    }

    /// A shell in a mount namespace of its own, which has made these mounts.
    fn in_own_namespace(mounts: &str) -> std::process::Child {
        use std::process::{Command, Stdio};
        let script = format!("{mounts} && echo made && read line");
        let mut command = Command::new("unshare");
        // Without root's rights a user namespace gives them.
        let user = if rustix::process::geteuid().is_root() { "--mount" } else { "--map-root-user" };
        command.args(["--mount", user, "sh", "-ec", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "made\n", "{script}");
        shell
    }

    #[test]
    fn files_of_a_peer_s_own_mounts_are_taken_unless_they_may_lie_over_others() {
        let overlay = "mount -t tmpfs none /mnt && mkdir /mnt/l /mnt/u /mnt/w && touch /mnt/l/file && \
                       mount -t overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w none /mnt";
        for (mounts, file, told) in [
            ("mount -t ramfs none /mnt && touch /mnt/file", "file", None),
            (overlay, "file", Some("on a file system overlay that is not mounted where the switch runs")),
            ("mount -t proc proc /mnt", "version", Some("on a file system proc that is not mounted")),
        ] {
            let mut shell = in_own_namespace(mounts);
            let file = File::open(format!("/proc/{}/root/mnt/{file}", shell.id())).unwrap();
            let list = fs::read_to_string(format!("/proc/{}/mountinfo", shell.id())).unwrap();
            let why = not_local(file.as_fd(), || Some(list));
            assert_eq!(why.is_none(), told.is_none(), "{why:?}");
            assert!(why.unwrap_or_default().contains(told.unwrap_or_default()));
            // A peer that cannot be seen.
            let why = not_local(file.as_fd(), || None).unwrap();
            assert!(why.contains("not mounted where the switch runs"), "{why}");
            drop(file);
            shell.kill().unwrap();
            shell.wait().unwrap();
        }
    }

    #[test]
    fn the_mounts_of_whoever_is_connected_are_read() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let own = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert_eq!(mounts_of_peer(socket.as_fd()), Some(own));
        assert_eq!(mounts_of_peer(File::open("/dev/null").unwrap().as_fd()), None);
    }

    #[test]
    fn a_mount_is_found_by_its_number() {
        let mounts =
            "29 1 8:1 / / rw - ext4 /dev/sda1 rw\n290 29 0:5 / /mnt rw shared:3 - fuse.sshfs a: rw\n";
        assert_eq!(file_system(mounts, "29"), Some("ext4"));
        assert_eq!(file_system(mounts, "290"), Some("fuse.sshfs"));
        assert_eq!(file_system(mounts, "2"), None);
    }
}
