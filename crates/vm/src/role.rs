//! The purpose of each thread of QEMU.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// The purpose of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The thread runs the vCPU with this number.
    Vcpu(usize),
    /// The thread is QEMU's main loop, or has no other role.
    Emulator,
    /// The thread serves devices (`-object iothread`).
    Io,
    /// The thread moves packets for vhost-net.
    Vhost,
    /// The thread belongs to the kernel and works for this guest.
    Kernel,
}

/// More vCPUs than a machine of QEMU's can have.
const MOST_VCPUS: u64 = 1 << 16;

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Vcpu(number) => write!(f, "vCPU {number}"),
            Role::Emulator => f.write_str("emulator"),
            Role::Io => f.write_str("I/O thread"),
            Role::Vhost => f.write_str("vhost worker"),
            Role::Kernel => f.write_str("KVM's helper"),
        }
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The roles that QEMU or libvirt reports for threads, by thread id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(pub BTreeMap<i32, Role>);

impl Roles {
    /// The role of a thread: the reported role, or else the role that its name shows (QEMU's `-name
    /// …,debug-threads=on`).
    pub fn of(&self, id: i32, name: &str) -> Role {
        self.0.get(&id).copied().unwrap_or_else(|| Role::by_name(name))
    }
}

impl Role {
    /// The role of the vCPU with this number; `None` if the number is larger than any guest's.
    pub fn vcpu(number: u64) -> Option<Role> {
        (number < MOST_VCPUS).then_some(Role::Vcpu(number as usize))
    }

    fn by_name(name: &str) -> Role {
        let vcpu = || Role::vcpu(name.strip_prefix("CPU ")?.split_once('/')?.0.parse().ok()?);
        match vcpu() {
            Some(role) => role,
            None if name.starts_with("IO ") => Role::Io,
            None if name.starts_with("vhost-") => Role::Vhost,
            None if name.starts_with("kvm-") => Role::Kernel,
            None => Role::Emulator,
        }
    }

    /// Whether the name of a thread outside of QEMU shows that it works for the QEMU with this process id.
    pub fn serves(name: &str, process: i32) -> bool {
        let owner = name
            .strip_prefix("vhost-")
            .or_else(|| name.strip_prefix("kvm-pit/"))
            .or_else(|| name.strip_prefix("kvm-nx-lpage-recovery-"));
        owner.and_then(|owner| owner.parse().ok()) == Some(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_told_or_read_from_names() {
        let roles = Roles([(7, Role::Vcpu(3))].into());
        for (id, name, role) in [
            (7, "qemu-system-x86", Role::Vcpu(3)),
            (8, "CPU 12/KVM", Role::Vcpu(12)),
            (9, "CPU 0/TCG", Role::Vcpu(0)),
            (9, "IO disk", Role::Io),
            (9, "vhost-41", Role::Vhost),
            (9, "worker", Role::Emulator),
            (9, "CPU x/KVM", Role::Emulator),
            (9, "CPU 65535/KVM", Role::Vcpu(65535)),
            (9, "CPU 65536/KVM", Role::Emulator),
            (9, "CPU 18446744073709551615/KVM", Role::Emulator),
        ] {
            assert_eq!(roles.of(id, name), role, "{name}");
        }
        assert!(Role::serves("vhost-41", 41) && Role::serves("kvm-pit/41", 41));
        assert!(!Role::serves("vhost-410", 41) && !Role::serves("kvm-pit/x", 41));
    }
}
