//! A stock Linux guest in a QEMU that another program starts, for example a documentation page's command line or
//! another tool.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::control::{Control, Silence};
use super::userland::Userland;
use super::{GRACE, PAUSE, new_folder};
use crate::requirements::Requirements;
use crate::{Error, Output, chosen};

/// The kernel, the file system and the control channel of a guest, which any user of this machine can boot.
pub struct Boot {
    folder: tempfile::TempDir,
    cpu: &'static str,
    kernel: PathBuf,
    initramfs: PathBuf,
    listener: UnixListener,
}

impl Boot {
    /// Makes the files and the control channel that QEMU needs, in a new folder.
    ///
    /// # Errors
    /// QEMU, a kernel with its modules or a program of the guest is missing, or a file or socket of the folder cannot
    /// be made.
    pub fn prepare() -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let qemu = chosen::installed_qemu(&mut needs);
        let kernel = chosen::kernel(&mut needs);
        let userland = Userland::find(&kernel, &[], &mut needs);
        needs.met()?;
        let failed = |doing: &'static str| Error::system(doing);
        let folder = new_folder()?;
        // The kernel may lie where only its owner can look.
        let image = folder.path().join("kernel");
        std::fs::copy(&kernel, &image).map_err(failed("copying the guest's kernel"))?;
        let initramfs = folder.path().join("initramfs");
        std::fs::write(&initramfs, userland.archive()?).map_err(failed("writing the guest's file system"))?;
        let socket = folder.path().join("control");
        let listener = UnixListener::bind(&socket).map_err(failed("making the control channel"))?;
        listener.set_nonblocking(true).map_err(failed("making the control channel"))?;
        for (path, mode) in
            [(folder.path(), 0o755), (&*image, 0o644), (&*initramfs, 0o644), (&*socket, 0o777)]
        {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).map_err(failed("letting others boot the guest"))?;
        }
        Ok(Self {
            folder,
            cpu: vm::QemuVersion::of(&qemu).emulated_cpu(),
            kernel: image,
            initramfs,
            listener,
        })
    }

    /// QEMU's arguments other than those for the machine, the memory and the network cards. Only the argument of the
    /// kernel's command line contains spaces.
    pub fn arguments(&self) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        let control = path(&self.folder.path().join("control"));
        let arguments = [
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-append",
            "quiet",
            "-device",
            "virtio-serial-pci",
            "-device",
            "virtserialport,chardev=control,name=control",
        ];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
        arguments.extend(["-chardev".into(), format!("socket,id=control,path={control}")]);
        arguments.extend(["-cpu".into(), self.cpu.into()]);
        arguments.extend(["-kernel".into(), path(&self.kernel), "-initrd".into(), path(&self.initramfs)]);
        arguments
    }

    /// Waits until the guest accepts commands.
    ///
    /// # Errors
    /// The guest does not connect or accept commands within the limit, or its channel fails.
    pub fn wait(&self, limit: Duration) -> Result<Session, Error> {
        let doing = "waiting for a guest that another program boots";
        let deadline = Instant::now() + limit;
        let timed_out = || Error::TimedOut { doing: doing.into(), limit, said: String::new() };
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if Instant::now() > deadline => return Err(timed_out()),
                Err(_) => std::thread::sleep(PAUSE),
            }
        };
        stream.set_nonblocking(false).map_err(Error::system(doing))?;
        let control = Control::new(stream).map_err(Error::system(doing))?;
        control.ready(deadline.saturating_duration_since(Instant::now())).map_err(|_| timed_out())?;
        Ok(Session { control })
    }
}

/// A guest that accepts commands. The program that started the guest ends it.
pub struct Session {
    control: Control,
}

impl Session {
    /// Runs a shell's command line; the guest kills its shell after the limit.
    ///
    /// # Errors
    /// The guest has ended, or does not answer within the limit plus 20 s.
    pub fn run_within(&self, line: &str, limit: Duration) -> Result<Output, Error> {
        let doing = || format!("running `{line}` in the guest");
        let id = self.control.send(line, limit).map_err(Error::system("telling the guest"))?;
        self.control.output(id, limit + GRACE).map_err(|silence| match silence {
            Silence::Ended => Error::refused(doing(), "the guest has ended".to_owned()),
            Silence::TimedOut => Error::TimedOut { doing: doing(), limit, said: String::new() },
        })
    }
}
