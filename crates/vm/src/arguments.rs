//! Builds QEMU's command line.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::assign::Assignment;
use crate::{Accelerator, HugePages, Placement, Profile, QemuVersion, SharedMemory};

/// The source from which the guest boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// A kernel image.
    Kernel {
        /// The image.
        kernel: PathBuf,
        /// The initial file system.
        initrd: Option<PathBuf>,
        /// The kernel's command line.
        append: Option<String>,
    },
    /// A disk that holds its own boot loader.
    Disk,
}

/// A network card, named by the program or device at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// A switch's socket.
    VhostUser(PathBuf),
    /// A TAP device of the host.
    Tap(String),
    /// QEMU's own translation to sockets of the host.
    User,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "user" => Ok(Network::User),
            Some(("vhost-user", path)) if !path.is_empty() => Ok(Network::VhostUser(path.into())),
            Some(("tap", name)) if !name.is_empty() => Ok(Network::Tap(name.to_owned())),
            _ => Err("write vhost-user:PATH, tap:NAME or user".into()),
        }
    }
}

/// The output of the guest's first serial line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serial {
    /// Nowhere.
    None,
    /// QEMU's standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// The part of the machine that the profile decides: CPUs and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The profile that the guest is started for.
    pub profile: Profile,
    /// The accelerator that runs the guest.
    pub accelerator: Accelerator,
    /// The guest's memory in MiB.
    pub memory_mib: u64,
    /// Huge pages for the guest's memory.
    pub huge_pages: Option<HugePages>,
    /// Whether the guest's memory is to be locked.
    pub locked: bool,
}

/// The settings of a guest that become QEMU's arguments.
#[derive(Clone, Debug)]
pub struct GuestSettings {
    /// The version of the QEMU that runs the guest.
    pub qemu: QemuVersion,
    /// The guest's CPUs and memory.
    pub hardware: Hardware,
    /// The source from which the guest boots.
    pub boot: Boot,
    /// Its disk.
    pub disk: Option<PathBuf>,
    /// The guest's network cards.
    pub networks: Vec<Network>,
    /// Memory of this process that the guest shares.
    pub shared: Option<SharedMemory>,
    /// The output of the guest's serial line.
    pub serial: Serial,
    /// Devices that are assigned to the guest.
    pub assigned: Vec<Assignment>,
    /// Further arguments.
    pub further: Vec<OsString>,
}

/// QEMU's arguments for a guest with this placement of threads. The guest starts paused.
pub fn arguments(guest: &GuestSettings, placement: &Placement) -> Vec<OsString> {
    let mut line = Line(Vec::new());
    // Threads have names that tell what they are for.
    line.words(&[
        "-name",
        "tautline,debug-threads=on",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-S",
    ]);
    let machine = if cfg!(target_arch = "aarch64") { "virt" } else { "q35" };
    line.0.extend(hardware(&guest.hardware, placement, machine));
    if let Boot::Kernel { kernel, initrd, append } = &guest.boot {
        line.path("-kernel", kernel);
        if let Some(initrd) = initrd {
            line.path("-initrd", initrd);
        }
        if let Some(append) = append {
            line.words(&["-append", append]);
        }
    }
    if let Some(disk) = &guest.disk {
        line.disk(disk, guest.hardware.profile);
    }
    for (number, network) in guest.networks.iter().enumerate() {
        line.network(number, network, guest.qemu);
    }
    for assignment in &guest.assigned {
        line.words(&["-device", &assignment.device()]);
    }
    if let Some(shared) = &guest.shared {
        line.0.extend(shared.arguments().map(OsString::from));
    }
    match &guest.serial {
        Serial::None => {}
        Serial::Stdout => {
            line.words(&["-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"])
        }
        Serial::File(file) => {
            line.words(&["-chardev"]);
            line.with_path("file,id=serial,path=", file, "");
            line.words(&["-serial", "chardev:serial"]);
        }
    }
    line.0.extend(guest.further.iter().cloned());
    line.0
}

/// The arguments that the profile decides, for a board with this QEMU name.
pub fn hardware(guest: &Hardware, placement: &Placement, board: &str) -> Vec<OsString> {
    let mut line = Line(Vec::new());
    line.words(&["-machine", &format!("{board},memory-backend=memory")]);
    match guest.accelerator {
        Accelerator::Kvm => line.words(&["-accel", "kvm", "-cpu", cpu_model(guest.profile, placement)]),
        // All that QEMU maps is locked: its translations need not be a gigabyte of it.
        Accelerator::Tcg if guest.locked => {
            line.words(&["-accel", "tcg,thread=multi,tb-size=64", "-cpu", "max"])
        }
        Accelerator::Tcg => line.words(&["-accel", "tcg,thread=multi", "-cpu", "max"]),
    }
    line.words(&["-smp", &placement.vcpus.len().to_string(), "-m", &format!("{}M", guest.memory_mib)]);
    line.words(&["-object", &memory(guest, placement)]);
    // A halted vCPU of a real-time guest keeps its CPU: no exit, and no way back in.
    let keeps_cpu = guest.profile == Profile::RealtimeGuest
        && guest.accelerator == Accelerator::Kvm
        && placement.priority.is_some();
    let parts = [(guest.locked, "mem-lock=on"), (keeps_cpu, "cpu-pm=on")];
    let parts: Vec<&str> = parts.into_iter().filter_map(|(on, part)| on.then_some(part)).collect();
    if !parts.is_empty() {
        line.words(&["-overcommit", &parts.join(",")]);
    }
    line.0
}

fn cpu_model(profile: Profile, placement: &Placement) -> &'static str {
    let x86 = cfg!(target_arch = "x86_64");
    match profile {
        // A guest that may spin as it likes must have its CPUs to itself.
        Profile::RealtimeGuest if x86 && placement.priority.is_some() => {
            "host,tsc-deadline=on,kvm-hint-dedicated=on,pmu=off"
        }
        Profile::RealtimeGuest | Profile::Latency if x86 => "host,tsc-deadline=on,pmu=off",
        _ => "host",
    }
}

fn memory(guest: &Hardware, placement: &Placement) -> String {
    // Shared: a vhost-user switch maps it too.
    let mut memory = format!("memory-backend-memfd,id=memory,size={}M,share=on", guest.memory_mib);
    if let Some(HugePages { kib }) = guest.huge_pages {
        memory += &format!(",hugetlb=on,hugetlbsize={kib}K");
    }
    if guest.profile.locks_memory() || guest.huge_pages.is_some() {
        memory += ",prealloc=on";
    }
    if let Some(node) = placement.node {
        memory += &format!(",host-nodes={node},policy=bind");
    }
    memory
}

struct Line(Vec<OsString>);

impl Line {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn path(&mut self, option: &str, path: &Path) {
        self.0.extend([option.into(), path.into()]);
    }

    /// An option's value with a path in it, whose commas are doubled.
    fn with_path(&mut self, before: &str, path: &Path, after: &str) {
        let mut value = before.as_bytes().to_vec();
        for byte in path.as_os_str().as_bytes() {
            value.push(*byte);
            if *byte == b',' {
                value.push(b',');
            }
        }
        value.extend(after.as_bytes());
        self.0.push(OsString::from_vec(value));
    }

    fn disk(&mut self, file: &Path, profile: Profile) {
        // By its name: a guest can write into its raw disk what makes it look like an image with the host's files.
        let format = if file.extension().is_some_and(|word| word == "qcow2") { "qcow2" } else { "raw" };
        self.words(&["-drive"]);
        self.with_path("id=disk,if=none,file=", file, &format!(",format={format}"));
        if profile.places_threads() {
            self.words(&[
                "-object",
                "iothread,id=disk-io",
                "-device",
                "virtio-blk-pci,drive=disk,iothread=disk-io",
            ]);
        } else {
            self.words(&["-device", "virtio-blk-pci,drive=disk"]);
        }
    }

    fn network(&mut self, number: usize, network: &Network, qemu: QemuVersion) {
        match network {
            Network::VhostUser(path) => {
                self.words(&["-chardev"]);
                // Survives a restart of the switch.
                self.with_path(
                    &format!("socket,id=switch{number},path="),
                    path,
                    &format!(",{}", qemu.reconnect()),
                );
                self.words(&["-netdev", &format!("vhost-user,id=net{number},chardev=switch{number}")]);
            }
            Network::Tap(name) => {
                let vhost = if Path::new("/dev/vhost-net").exists() { "on" } else { "off" };
                let name = name.replace(',', ",,");
                let tap = format!("tap,id=net{number},ifname={name},script=no,downscript=no,vhost={vhost}");
                self.words(&["-netdev", &tap]);
            }
            Network::User => self.words(&["-netdev", &format!("user,id=net{number}")]),
        }
        // Locally administered.
        let mac = format!("52:54:00:74:6c:{number:02x}");
        self.words(&["-device", &format!("virtio-net-pci,netdev=net{number},mac={mac}")]);
    }
}

/// The command as a shell reads it, with each option and its value on a line of their own.
pub fn for_a_shell(program: &Path, arguments: &[OsString]) -> String {
    let mut text = quote(&program.to_string_lossy());
    for argument in arguments {
        let word = argument.to_string_lossy();
        text += if word.starts_with('-') { " \\\n    " } else { " " };
        text += &quote(&word);
    }
    text
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,.:/+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuWishes, HostCpus};

    fn settings(profile: Profile) -> GuestSettings {
        let locked = profile.locks_memory();
        let accelerator = Accelerator::Kvm;
        GuestSettings {
            qemu: QemuVersion::NEWEST,
            hardware: Hardware { profile, accelerator, memory_mib: 512, huge_pages: None, locked },
            boot: Boot::Kernel { kernel: "/k".into(), initrd: None, append: Some("quiet a='b'".into()) },
            disk: None,
            networks: Vec::new(),
            shared: None,
            serial: Serial::None,
            assigned: Vec::new(),
            further: Vec::new(),
        }
    }

    fn line(settings: &GuestSettings) -> String {
        let host = HostCpus {
            usable: "0-3".parse().unwrap(),
            isolated: Default::default(),
            nodes: vec![(0, "0-1".parse().unwrap()), (1, "2-3".parse().unwrap())],
            real_time: false,
        };
        let wishes = CpuWishes {
            profile: settings.hardware.profile,
            count: 2,
            vcpu_cpus: Some("2-3".parse().unwrap()),
            housekeeping: None,
            priority: None,
        };
        for_a_shell(Path::new("qemu"), &arguments(settings, &Placement::plan(&wishes, &host).0))
    }

    #[test]
    fn a_real_time_guest_has_all_of_it_and_a_plain_one_nothing() {
        let plain = line(&settings(Profile::Plain));
        assert!(plain.contains("-cpu host \\\n") && !plain.contains("overcommit"), "{plain}");
        assert!(!plain.contains("prealloc") && !plain.contains("host-nodes"), "{plain}");
        assert!(plain.contains(r"-append 'quiet a='\''b'\'''"), "{plain}");
        let mut guest = settings(Profile::RealtimeGuest);
        guest.hardware.huge_pages = Some(HugePages { kib: 2048 });
        let real_time = line(&guest);
        for part in [
            "-S",
            "debug-threads=on",
            "mem-lock=on,cpu-pm=on",
            "hugetlb=on,hugetlbsize=2048K,prealloc=on,host-nodes=1,policy=bind",
        ] {
            assert!(real_time.contains(part), "{part}: {real_time}");
        }
        guest.hardware.accelerator = Accelerator::Tcg;
        let emulated = line(&guest);
        assert!(emulated.contains("tb-size=64") && !emulated.contains("cpu-pm"), "{emulated}");
    }

    #[test]
    fn disks_and_networks_have_their_threads_and_odd_paths_stay_one_word() {
        let networks = ["vhost-user:/tmp/a,b", "tap:t0", "user"].map(|text| text.parse().unwrap()).to_vec();
        let guest = GuestSettings {
            boot: Boot::Disk,
            disk: Some("/raw,id=x".into()),
            networks,
            ..settings(Profile::Latency)
        };
        let text = line(&guest);
        for part in [
            "raw,,id=x,format=raw",
            "iothread=disk-io",
            "socket,id=switch0,path=/tmp/a,,b,reconnect-ms=1000",
            "tap,id=net1,ifname=t0",
            "user,id=net2",
            "virtio-net-pci,netdev=net2,mac=52:54:00:74:6c:02",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("-kernel"), "{text}");
        assert!(line(&GuestSettings { disk: Some("/x.qcow2".into()), ..guest }).contains("format=qcow2"));
        for bad in ["", "tap", "tap:", "vhost-user:", "bridge:x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
