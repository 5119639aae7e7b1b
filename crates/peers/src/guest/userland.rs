//! The guest's files other than its kernel: the host's own programs, with the libraries that they need.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use environment::vm::Module;

use super::archive::Archive;
use super::modules;
use crate::requirements::Requirements;
use crate::{Error, process};

/// The folder of the host's programs in the guest; it is the first in the guest's `PATH`, before busybox.
pub const PROGRAMS: &str = "/programs";
/// The modules that every guest loads.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "virtio_net", "af_packet", "veth", "tun", "8021q"];

/// The files of the guest's file system, found on the host before anything is started.
pub struct Userland {
    busybox: PathBuf,
    programs: Vec<PathBuf>,
    modules: PathBuf,
    further: &'static [&'static str],
}

/// The key by which archives are distinguished.
type Made = (PathBuf, &'static [&'static str]);

impl Userland {
    /// Finds the programs, and the modules of this kernel; the modules in `further` are loaded after those of every
    /// guest. Requirements that are not met are added to `needs`.
    pub fn find(kernel: &Path, further: &'static [&'static str], needs: &mut Requirements) -> Self {
        let busybox = needs.program("busybox", "busybox-static");
        if busybox.is_file() && !std::fs::read(&busybox).is_ok_and(|bytes| is_static(&bytes)) {
            needs.missing(format!(
                "a static busybox, which {} is not (apt-get install busybox-static)",
                busybox.display()
            ));
        }
        // The host's shell too: busybox's own prefers what busybox calls `ip` or `ping` to any program.
        let programs = [
            ("sh", "dash"),
            ("ip", "iproute2"),
            ("ping", "iputils-ping"),
            ("iperf3", "iperf3"),
            ("ethtool", "ethtool"),
        ];
        let programs = programs.map(|(program, package)| needs.program(program, package));
        Self { busybox, programs: programs.into(), modules: modules::folder(kernel, needs), further }
    }

    /// The archive of these files; the archive of the last kernel and its modules is kept for later calls.
    ///
    /// # Errors
    /// A program, library or module cannot be read, or `ldd` cannot be run.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        static MADE: Mutex<Option<(Made, Vec<u8>)>> = Mutex::new(None);
        let mut made = MADE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*made {
            Some(((modules, further), bytes)) if *modules == self.modules && *further == self.further => {
                Ok(bytes.clone())
            }
            _ => {
                let bytes = self.build()?;
                *made = Some(((self.modules.clone(), self.further), bytes.clone()));
                Ok(bytes)
            }
        }
    }

    fn build(&self) -> Result<Vec<u8>, Error> {
        let failed = |error| Error::System { doing: "making the guest's file system".into(), error };
        let mut archive = Archive::default();
        archive.console().map_err(failed)?;
        for folder in ["proc", "sys", "bin"] {
            archive.folder(Path::new(folder)).map_err(failed)?;
        }
        archive.file(Path::new("init"), include_bytes!("init.sh")).map_err(failed)?;
        archive.file(Path::new("bin/busybox"), &read(&self.busybox)?).map_err(failed)?;
        let mut order = String::new();
        for Module { name, content } in
            modules::with_dependencies(&self.modules, &[MODULES, self.further].concat())?
        {
            archive.file(&Path::new("modules").join(&name), &content).map_err(failed)?;
            order.push_str(&name);
            order.push('\n');
        }
        archive.file(Path::new("modules/order"), order.as_bytes()).map_err(failed)?;
        let mut libraries = BTreeSet::new();
        for program in &self.programs {
            let name = program.file_name().unwrap_or_default();
            archive.file(&Path::new(PROGRAMS).join(name), &read(program)?).map_err(failed)?;
            libraries.extend(needed_libraries(program)?);
        }
        for library in libraries {
            archive.file(&library, &read(&library)?).map_err(failed)?;
        }
        archive.finish().map_err(failed)
    }
}

/// An archive of the test's own files. The kernel unpacks it after the first archive.
pub(super) fn brought(files: &[(PathBuf, PathBuf)]) -> Result<Vec<u8>, Error> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error| Error::System { doing: "making the guest's file system".into(), error };
    let mut archive = Archive::default();
    for (from, to) in files {
        archive.file(to, &read(from)?).map_err(failed)?;
        for library in needed_libraries(from)? {
            archive.file(&library, &read(&library)?).map_err(failed)?;
        }
    }
    archive.finish().map_err(failed)
}

/// Reads a file of the host.
///
/// # Errors
/// The file cannot be read.
pub fn read(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(Error::system(format!("reading {}", file.display())))
}

/// Whether an ELF file names no interpreter: its first 64 KiB do not hold the loader's name. Exact enough for
/// busybox.
fn is_static(bytes: &[u8]) -> bool {
    !bytes.windows(8).take(1 << 16).any(|window| window.starts_with(b"ld-linux"))
}

/// The libraries and the loader of a program, as `ldd` lists them; a static program has none.
///
/// # Errors
/// `ldd` cannot be started, or does not end within 30 s.
pub fn needed_libraries(program: &Path) -> Result<Vec<PathBuf>, Error> {
    let output = process::run(Command::new("ldd").arg(program), Duration::from_secs(30))?;
    if !output.success() {
        // A static program: "not a dynamic executable".
        return Ok(Vec::new());
    }
    // "libm.so.6 => /lib/…/libm.so.6 (0x…)", "/lib64/ld-linux-x86-64.so.2 (0x…)"
    let lines = output.stdout.lines();
    Ok(lines
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect())
}
