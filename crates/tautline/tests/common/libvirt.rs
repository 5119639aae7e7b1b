//! A daemon of libvirt of an ordinary user's own, in a folder of the test.
use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use linux::Child;
use rustix::process::{Pid, Signal, kill_process};

use super::wait_until;

const NOBODY: u32 = 65534;

/// The daemon, which is killed with its domains when this is dropped.
pub struct Libvirt {
    folder: tempfile::TempDir,
    _daemon: Child,
    domains: RefCell<Vec<Pid>>,
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        for domain in self.domains.take() {
            // A domain may have ended before; the kernel does not give its number again so soon.
            let _ = kill_process(domain, Signal::KILL);
        }
    }
}

impl Libvirt {
    /// Starts the daemon, and waits until it answers.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut daemon = as_user(folder.path(), "libvirtd");
        daemon.stdout(log.try_clone().unwrap()).stderr(log);
        let daemon = Child::spawn(&mut daemon).expect("scripts/setup.sh test installs libvirtd");
        let libvirt = Libvirt { folder, _daemon: daemon, domains: RefCell::default() };
        assert!(wait_until(|| libvirt.virsh(&["list"]).status.success()), "{}", libvirt.log());
        libvirt
    }

    /// The folder in which the user may write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the daemon has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    /// Runs `virsh` with these arguments.
    pub fn virsh(&self, arguments: &[&str]) -> Output {
        let mut command = as_user(self.folder(), "virsh");
        command
            .args(["-c", "qemu:///session"])
            .args(arguments)
            .output()
            .expect("scripts/setup.sh test installs virsh")
    }

    /// Creates a domain with these elements and devices, and returns the process of its QEMU.
    #[track_caller]
    pub fn create(&self, name: &str, elements: &str, devices: &str, options: &[&str]) -> u32 {
        let (architecture, machine) = match std::env::consts::ARCH {
            "aarch64" => ("aarch64", "virt"),
            _ => ("x86_64", "q35"),
        };
        let qemu = environment::vm::find_qemu().unwrap();
        let xml = format!(
            "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory>{elements}
            <os><type arch='{architecture}' machine='{machine}'>hvm</type></os><seclabel type='none'/>
            <devices><emulator>{}</emulator>{devices}</devices></domain>",
            qemu.display()
        );
        fs::write(self.folder().join("guest.xml"), xml).unwrap();
        let created = self.virsh(&[&["create", "guest.xml"], options].concat());
        assert!(created.status.success(), "{}{}", String::from_utf8_lossy(&created.stderr), self.log());
        let id = fs::read_to_string(self.folder().join(format!("libvirt/qemu/run/{name}.pid"))).unwrap();
        let id: i32 = id.trim().parse().unwrap();
        self.domains.borrow_mut().extend(Pid::from_raw(id));
        id.cast_unsigned()
    }
}

/// As an ordinary user, for whom the daemon keeps everything in this folder.
fn as_user(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command
            .arg(format!("--reuid={NOBODY}"))
            .arg(format!("--regid={NOBODY}"))
            .arg("--clear-groups")
            .arg(program);
    }
    command.env("HOME", folder).env("XDG_RUNTIME_DIR", folder).stdin(Stdio::null()).current_dir(folder);
    command
}
