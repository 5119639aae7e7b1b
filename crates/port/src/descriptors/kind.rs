//! Whether closing a descriptor may wait, found out without asking a file system: that may wait too.
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, StatxFlags, fcntl_get_seals, statx};
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;

use crate::event_fd;

/// File systems of this machine's own: nobody else is asked when a file on them is closed.
const LOCAL: [&str; 10] =
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "xfs", "zfs"];

/// Null, zero, random and so on (devices.txt of Linux). Other devices have drivers that are asked: a terminal waits
/// for its output.
const MEMORY_DEVICES: u32 = 1;

/// What it is, if closing it may wait for somebody; `None` for what is closed at once.
pub(super) fn slow_to_close(fd: BorrowedFd<'_>) -> Option<String> {
    // Files in memory, and only those, have seals (`memfd_file_seals_ptr`, mm/memfd.c).
    if fcntl_get_seals(fd).is_ok() {
        return None;
    }
    let Ok(name) = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())) else {
        // No /proc here.
        let known = matches!(event_fd::is_event_fd(fd), Ok(true)) || is_unix_socket(fd);
        return (!known).then(|| "a descriptor of an unknown kind".to_owned());
    };
    let name = name.to_string_lossy();
    // The kernel's own names, which no file's path can be: paths begin with a slash.
    if name.starts_with("anon_inode:") || name.starts_with("pipe:") || is_unix_socket(fd) {
        return None;
    }
    let closes_at_once = name.starts_with('/')
        && match type_of(fd) {
            Some((FileType::RegularFile | FileType::Directory, _)) => is_local(fd),
            Some((FileType::CharacterDevice, major)) => major == MEMORY_DEVICES,
            _ => false,
        };
    (!closes_at_once).then(|| name.into_owned())
}

fn is_unix_socket(fd: BorrowedFd<'_>) -> bool {
    socket_domain(fd).is_ok_and(|domain| domain == AddressFamily::UNIX)
}

/// The type of a file, and the major number of a device, as the kernel knows them already.
fn type_of(fd: BorrowedFd<'_>) -> Option<(FileType, u32)> {
    let status = statx(fd, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some((FileType::from_raw_mode(status.stx_mode.into()), status.stx_rdev_major))
}

/// Whether it lies on a local file system that is mounted where this process runs.
fn is_local(fd: BorrowedFd<'_>) -> bool {
    let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())) else { return false };
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim);
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return false };
    mount.and_then(|mount| file_system(&mounts, mount)).is_some_and(|name| LOCAL.contains(&name))
}

/// The file system of a mount, by its number: proc_pid_mountinfo(5).
fn file_system<'a>(mounts: &'a str, mount: &str) -> Option<&'a str> {
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(mount))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn kind(fd: impl Into<OwnedFd>) -> Option<String> {
        slow_to_close(fd.into().as_fd())
    }

    #[test]
    fn what_guests_pass_is_closed_at_once() {
        assert_eq!(kind(memory::sealed_memfd(c"test", 4096).unwrap()), None);
        assert_eq!(kind(crate::event_fd::EventFd::new().unwrap().share().unwrap()), None);
        assert_eq!(kind(UnixStream::pair().unwrap().0), None);
        assert_eq!(kind(std::io::pipe().unwrap().0), None);
        assert_eq!(kind(File::open("/dev/zero").unwrap()), None, "refused for what it is");
        if let Ok(file) = tempfile::tempfile_in("/dev/shm") {
            assert_eq!(kind(file), None);
        }
    }

    #[test]
    fn sockets_of_the_network_and_devices_may_take_long() {
        let socket = kind(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        assert!(socket.starts_with("socket:["), "{socket}");
        let terminal = kind(File::open("/dev/ptmx").unwrap()).unwrap();
        assert!(terminal.ends_with("ptmx"), "{terminal}");
        // The kernel's, and not on the list.
        let file = File::open("/proc/self/maps").unwrap();
        assert!(kind(file).unwrap().ends_with("/maps"));
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
