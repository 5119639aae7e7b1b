//! Trees below `--root` that another program wrote, to reach what lies outside of them or to make a command wait.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use host::{Audit, Knob, Plan, Survey};
use rustix::fs::{CWD, FileType, Mode};

use super::Host;
use super::undo::{all_of, snapshot};

const SECRET: &str = "secret of another folder";

/// Beside a host's folder one that is not its own.
fn beside() -> (Host, tempfile::TempDir) {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), SECRET).unwrap();
    (Host::of("intel"), outside)
}

fn replace(path: &Path, make: impl FnOnce(&Path)) {
    match path.is_dir() {
        true => fs::remove_dir_all(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
    make(path);
}

fn pipe(path: &Path) {
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

#[test]
fn links_lead_to_files_of_the_tree_alone() {
    let (host, outside) = beside();
    let link = |target: &Path, name: &str| symlink(target, host.folder.path().join(name)).unwrap();
    let up = "../".repeat(20);
    link(&outside.path().join("file"), "absolute");
    link(Path::new(&format!("{up}{}", outside.path().join("file").display())), "relative");
    link(outside.path(), "folder");
    link(Path::new("/proc/self/root"), "magic");
    link(Path::new("/proc/cmdline"), "own");
    link(Path::new("loop"), "loop");
    for path in
        ["/absolute", "/relative", "/folder/file", "/magic/etc/passwd", "/../../../etc/passwd", "/loop"]
    {
        assert!(host.tree.read(path).is_err(), "{path}");
        assert!(!host.tree.has(path), "{path}");
    }
    assert_eq!(host.tree.names("/folder"), [""; 0]);
    assert_eq!(host.tree.read("/own").unwrap(), host.tree.read("/proc/cmdline").unwrap(), "as in a chroot");
    for path in ["/absolute", "/relative", "/folder/file", "/folder/new", "/../new"] {
        let _ = host.tree.write(path, "1");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), SECRET);
    assert!(!host.folder.path().parent().unwrap().join("new").exists());
}

#[test]
fn only_regular_files_are_opened() {
    let host = Host::of("intel");
    let socket = |path: &Path| {
        rustix::fs::mknodat(CWD, path, FileType::Socket, Mode::RUSR | Mode::WUSR, 0).unwrap();
    };
    for make in [&pipe as &dyn Fn(&Path), &socket] {
        replace(&host.folder.path().join("proc/sys/vm/stat_interval"), make);
        let read = host.tree.read("/proc/sys/vm/stat_interval").unwrap_err().to_string();
        let written = host.tree.write("/proc/sys/vm/stat_interval", "10").unwrap_err().to_string();
        assert!([&read, &written].iter().all(|error| error.contains("no regular file")), "{read}; {written}");
    }
}

/// A second name of a file outside cannot be told from one within.
#[test]
fn a_file_with_a_second_name_is_read_and_not_written() {
    let (host, outside) = beside();
    let path = host.folder.path().join("proc/sys/vm/stat_interval");
    replace(&path, |path| fs::hard_link(outside.path().join("file"), path).unwrap());
    assert_eq!(host.tree.read("/proc/sys/vm/stat_interval").unwrap(), SECRET);
    let error = host.tree.write("/proc/sys/vm/stat_interval", "10").unwrap_err().to_string();
    assert!(error.contains("other names"), "{error}");
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), SECRET);
}

/// Every folder and file in turn is a link to one outside, a pipe, a socket, or a file without an end: audit and plan
/// come to their end, apply and undo of each fourth too, and nothing outside is changed.
#[test]
fn no_file_of_a_tree_leads_out_of_it_or_makes_a_command_wait() {
    let (_, outside) = beside();
    let before = snapshot(outside.path());
    let names = Host::of("intel");
    let mut all: Vec<_> = snapshot(names.folder.path()).into_keys().collect();
    all.retain(|path| path != names.folder.path());
    for (number, path) in all.iter().enumerate() {
        let host = Host::of("intel");
        let path = host.folder.path().join(path.strip_prefix(names.folder.path()).unwrap());
        replace(&path, |path| match number % 5 {
            0 => symlink(outside.path(), path).unwrap(),
            1 => symlink(outside.path().join("file"), path).unwrap(),
            2 => pipe(path),
            3 => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
            _ => rustix::fs::mknodat(CWD, path, FileType::Socket, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        });
        let special = fs::symlink_metadata(&path).unwrap();
        let Ok(survey) = Survey::of(&host.tree, &host.wishes) else { continue };
        let audit = Audit::of(&survey);
        let said = format!("{audit:?} {:?}", Plan::of(&survey));
        assert!(!said.contains(SECRET), "{}", path.display());
        if number % 4 == 0 {
            let journal = outside.path().join("journal");
            let _ = host::apply(&host.tree, &Plan::of(&survey), &all_of(&host), &journal, |_| {});
            let _ = host::undo(&host.tree, &journal, |_, _| {});
            let _ = fs::remove_file(&journal);
        }
        assert_eq!(snapshot(outside.path()), before, "{}", path.display());
        let after = fs::symlink_metadata(&path).unwrap();
        assert!(after.file_type() == special.file_type(), "{}", path.display());
    }
}

/// A journal may be of a hostile tree too: a cgroup, a driver's link and files that were absent are put back within it.
#[test]
fn undo_removes_and_links_within_the_tree() {
    let (host, outside) = beside();
    fs::create_dir(outside.path().join("empty")).unwrap();
    fs::create_dir_all(outside.path().join("0000:00:06.0")).unwrap();
    fs::write(outside.path().join("0000:00:06.0/driver_override"), "other\n").unwrap();
    fs::create_dir(outside.path().join("0000:00:06.0/one")).unwrap();
    symlink("one", outside.path().join("0000:00:06.0/driver")).unwrap();
    symlink(outside.path(), host.folder.path().join("out")).unwrap();
    fs::create_dir_all(host.folder.path().join("sys/bus/pci/drivers/vfio-pci")).unwrap();
    symlink(outside.path(), host.folder.path().join("sys/bus/pci/devices")).unwrap();
    let before = snapshot(outside.path());
    let _ = Knob::Cgroup { path: "/out/empty".into() }.remove(&host.tree);
    let _ = Knob::Cgroup { path: "/out/made".into() }.write(&host.tree, "present");
    let _ = Knob::File { path: "/out/file".into() }.remove(&host.tree);
    let device = Knob::PciDriver { device: "0000:00:06.0".into() };
    assert_eq!(device.read(&host.tree).unwrap(), None);
    let _ = device.write(&host.tree, "vfio-pci vfio-pci");
    assert_eq!(snapshot(outside.path()), before);
    assert_eq!(fs::read_link(outside.path().join("0000:00:06.0/driver")).unwrap(), Path::new("one"));
}
