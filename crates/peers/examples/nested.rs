//! A shell in a nested machine, for developers: `make nested`. Programs that are named are copied into it. With
//! `arm64` as the first argument it is the arm64 machine, with `arm64-nvhe` one whose kernel runs at EL1. The end of the
//! input ends the shell.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use peers::Guest;
use peers::nested::{ArmSettings, KvmMode, Settings};

const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("shell");
    let chardev = format!("socket,id=shell,path={},server=on,wait=off", socket.display());
    let serial = ["-chardev", &chardev, "-serial", "chardev:shell"];
    let mut programs: Vec<String> = std::env::args().skip(1).collect();
    let mode = match programs.first().map(String::as_str) {
        Some("arm64") => Some(KvmMode::Vhe),
        Some("arm64-nvhe") => Some(KvmMode::Nvhe),
        _ => None,
    };
    match mode {
        Some(mode) => {
            eprintln!("booting; ten seconds");
            let settings = ArmSettings::default().mode(mode).guest_within().arguments(serial);
            let programs = programs.drain(1..);
            let machine = programs.fold(settings, |s, file| s.program(Path::new(&file))).start()?;
            eprintln!("`start-guest -serial stdio` starts a guest; its kernel and initramfs are in /guest");
            shell(&machine, &socket, "ttyAMA1")
        }
        None => {
            eprintln!("booting; half a minute");
            let settings = Settings::default().arguments(serial);
            let machine = programs.iter().fold(settings, |s, file| s.program(Path::new(file))).start()?;
            eprintln!("a kernel and an initramfs for a guest are in /guest");
            shell(&machine, &socket, "ttyS1")
        }
    }
}

/// Connects this terminal with a shell on a serial port of the machine, until the shell ends.
fn shell(machine: &Guest, socket: &Path, port: &str) -> Result<(), Box<dyn std::error::Error>> {
    let line = UnixStream::connect(socket)?;
    eprintln!("`exit` leaves; more in docs/nested.md");
    let size = stty(&["size"]).unwrap_or_default().trim().replace(' ', " cols ");
    let size = if size.is_empty() { "24 cols 80".to_owned() } else { size };
    let shell = format!(
        "stty -F /dev/{port} sane rows {size}; export TERM=vt100 PS1='nested:\\w# '; cd /; \
         exec setsid -c busybox sh -i </dev/{port} >/dev/{port} 2>&1"
    );
    let session = machine.begin(&shell, MONTH)?;
    let before = stty(&["-g"]);
    let _ = stty(&["raw", "-echo"]);
    let (mut input, mut output) = (line.try_clone()?, line);
    std::thread::spawn(move || {
        copy(io::stdin(), &mut input);
        let _ = input.write_all(b"\x04");
    });
    std::thread::spawn(move || copy(&mut output, io::stdout()));
    let ended = session.wait();
    if let Some(before) = before {
        let _ = stty(&[before.trim()]);
    }
    eprintln!();
    ended?;
    Ok(())
}

/// What `stty` says about the terminal, if the input is one.
fn stty(arguments: &[&str]) -> Option<String> {
    let output = Command::new("stty").args(arguments).stdin(Stdio::inherit()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Each byte as it comes.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}
