//! Reads running libvirt domains from the state files of libvirt's daemon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use measure::Failure;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::{Role, Roles};

/// A running domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// QEMU's process id.
    pub process: u32,
    /// The threads of the domain's vCPUs. I/O threads are known by their names, which libvirt has QEMU set.
    pub roles: Roles,
}

/// The folders of those state files: the folder of the system's daemon, and the folder of the user's own daemon.
pub fn folders() -> Vec<PathBuf> {
    let own =
        |variable: &str, rest: &str| std::env::var_os(variable).map(|value| Path::new(&value).join(rest));
    let mut folders = vec![PathBuf::from("/run/libvirt/qemu")];
    folders.extend(own("XDG_RUNTIME_DIR", "libvirt/qemu/run"));
    folders.extend(own("HOME", ".cache/libvirt/qemu/run"));
    folders
}

/// Finds a running domain by its name: reads `NAME.xml` in the first folder that has this file.
///
/// # Errors
/// The name is empty or holds a `/`, no folder has such a file (the domain does not run), or the file cannot be read.
/// Or the file is not XML, or names no process or no threads of vCPUs, which happens while the domain starts.
pub fn find(name: &str, folders: &[PathBuf]) -> Result<Domain, Failure> {
    let tried = format!("looking for the libvirt domain {name:?}");
    let failed = |answer: &str| {
        Failure::new(&tried, answer, "`virsh list` names running ones; a QEMU of its own is named by --pid")
    };
    if name.is_empty() || name.contains('/') {
        return Err(failed("no domain has such a name"));
    }
    for folder in folders {
        let file = folder.join(format!("{name}.xml"));
        match std::fs::read_to_string(&file) {
            Ok(text) => return parse(&text).map_err(|error| failed(&format!("{}: {error}", file.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&format!("{}: {error}", file.display()))),
        }
    }
    let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(failed(&format!("it does not run: it is in none of {}", places.join(", "))))
}

/// `<domstatus pid='…'>` with `<vcpus><vcpu id='…' pid='…'/></vcpus>`: libvirt, src/qemu/qemu_domain.c.
fn parse(text: &str) -> Result<Domain, String> {
    let mut reader = Reader::from_str(text);
    let mut process = None;
    let mut roles = BTreeMap::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(element) | Event::Empty(element) => match element.name().as_ref() {
                b"domstatus" => process = number(&element, "pid"),
                // The domain's own XML has such elements too, without a process.
                b"vcpu" => {
                    if let (Some(id), Some(thread)) = (number(&element, "id"), number(&element, "pid")) {
                        let role = Role::vcpu(id.into())
                            .ok_or_else(|| format!("vCPU {id}: no guest has that many vCPUs"))?;
                        roles.insert(thread as i32, role);
                    }
                }
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
    }
    match process {
        Some(process) if !roles.is_empty() => Ok(Domain { process, roles: Roles(roles) }),
        _ => Err("it has no process or no vCPUs with threads: the domain is no QEMU, or not up yet".into()),
    }
}

fn number(element: &BytesStart<'_>, name: &str) -> Option<u32> {
    let attribute = element.try_get_attribute(name).ok()??;
    let number = std::str::from_utf8(&attribute.value).ok()?.parse().ok()?;
    // The caller uses the number as a process id.
    (number <= i32::MAX as u32).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "<!-- WARNING -->
<domstatus state='running' reason='booted' pid='4711'>
  <monitor path='/var/lib/libvirt/qemu/domain-1-x/monitor.sock' type='unix'/>
  <vcpus><vcpu id='0' pid='4720'/><vcpu id='1' pid='4721'/></vcpus>
  <domain type='kvm' id='1'><name>x</name><vcpu placement='static'>2</vcpu></domain>
</domstatus>";

    #[test]
    fn a_running_domain_is_found_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("none"), folder.path().to_owned()];
        std::fs::write(folder.path().join("x.xml"), STATUS).unwrap();
        let domain = find("x", &folders).unwrap();
        assert_eq!(domain.process, 4711);
        assert_eq!(domain.roles.0, [(4720, Role::Vcpu(0)), (4721, Role::Vcpu(1))].into());
        let many = STATUS.replace("vcpu id='1'", "vcpu id='65536'");
        for (name, text) in
            [("cut", &STATUS[..90]), ("bad", "<domstatus pid='-1'/>"), ("no", ""), ("many", &many)]
        {
            std::fs::write(folder.path().join(format!("{name}.xml")), text).unwrap();
            assert!(find(name, &folders).is_err(), "{name}");
        }
        for name in ["y", "", "../x"] {
            assert!(find(name, &folders).unwrap_err().remedy.contains("virsh list"), "{name}");
        }
    }
}
