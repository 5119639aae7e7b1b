//! Finds the process of a guest by its name in libvirt or QEMU.

use std::fs;
use std::path::Path;

use measure::Failure;

/// The process of a libvirt domain, or of any QEMU started with `-name`.
///
/// # Errors
/// No running QEMU has this name.
pub fn pid_of_domain(name: &str) -> Result<u32, Failure> {
    find(name, Path::new("/")).ok_or_else(|| {
        let tried = format!("looking for the guest {name} in /run/libvirt/qemu and among QEMU's processes");
        Failure::new(tried, "there is none", "see `virsh list`, or give the process with --pid")
    })
}

fn find(name: &str, root: &Path) -> Option<u32> {
    let proc = root.join("proc");
    // A name is no path.
    let own_file = (!name.contains('/')).then(|| root.join("run/libvirt/qemu").join(format!("{name}.pid")));
    let written = own_file.and_then(|file| fs::read_to_string(file).ok()?.trim().parse::<u32>().ok());
    let command_line = |pid: &u32| fs::read(proc.join(pid.to_string()).join("cmdline")).unwrap_or_default();
    // A host that lost power leaves such files behind: the process may be another one by now.
    if let Some(pid) = written.filter(|pid| is_named(&command_line(pid), name)) {
        return Some(pid);
    }
    let pids = fs::read_dir(&proc).ok()?.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some((pid, fs::read(entry.path().join("cmdline")).ok()?))
    });
    pids.filter(|(_, line)| is_named(line, name)).map(|(pid, _)| pid).min()
}

/// `-name NAME` or `-name guest=NAME,…` of a QEMU.
fn is_named(command_line: &[u8], name: &str) -> bool {
    let words: Vec<_> = command_line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let is_qemu = words.first().is_some_and(|program| program.contains("qemu") || program.ends_with("/kvm"));
    let named = words.windows(2).filter(|pair| pair[0] == "-name").any(|pair| {
        pair[1].split(',').enumerate().any(|(at, part)| match part.strip_prefix("guest=") {
            Some(guest) => guest == name,
            None => at == 0 && part == name,
        })
    });
    is_qemu && named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_libvirt_s_file_while_it_runs_else_by_the_command_line() {
        let root = std::env::temp_dir().join(format!("tautline-domain-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        write("run/libvirt/qemu/web.pid", "41\n");
        write("run/libvirt/qemu/gone.pid", "40\n");
        write("run/libvirt/qemu/old.pid", "43\n");
        write("run/libvirt/qemu/plain.pid", "41\n");
        write("proc/41/cmdline", "/usr/bin/kvm\0-name\0guest=web,debug-threads=on\0");
        write("proc/42/cmdline", "qemu-system-x86_64\0-name\0plain,process=x\0");
        write("proc/43/cmdline", "grep\0-name\0plain\0");
        let found = ["web", "old", "plain", "gone", "plai", "../42"].map(|name| find(name, &root));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [Some(41), None, Some(42), None, None, None]);
    }
}
