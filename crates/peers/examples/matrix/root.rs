//! The builds of a release: its packages, unpacked into the cache by mmdebstrap. Nothing of them is installed, and none
//! of their scripts runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::Failed;

/// A release of Debian.
pub struct Set {
    pub name: &'static str,
    suite: &'static str,
    backports: bool,
}

pub const SETS: [Set; 3] = [
    Set { name: "trixie", suite: "trixie", backports: false },
    Set { name: "trixie-backports", suite: "trixie", backports: true },
    Set { name: "sid", suite: "sid", backports: false },
];

const PACKAGES: &str =
    "qemu-system-x86,dpdk-dev,openvswitch-switch-dpdk,linux-image-cloud-amd64,ovn-central,ovn-host";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Where tests find the builds of a set.
pub struct Builds {
    pub qemu: PathBuf,
    pub testpmd: PathBuf,
    pub open_vswitch: PathBuf,
    pub ovn: PathBuf,
    pub kernel: PathBuf,
    pub versions: Versions,
}

/// What the builds say of themselves. Open vSwitch names the DPDK that both it and testpmd use.
#[derive(Serialize, Deserialize)]
pub struct Versions {
    pub qemu: String,
    pub linux: String,
    pub dpdk: String,
    pub open_vswitch: String,
    /// Older results have none.
    #[serde(default)]
    pub ovn: String,
}

/// What comes after a word in what a program says of its version.
fn version(program: &Path, word: &str) -> Result<String, Failed> {
    let mut command = Command::new(program);
    command.arg("--version");
    let said = succeed(command)?;
    let version = said.split_once(word).and_then(|(_, rest)| rest.split_whitespace().next());
    Ok(version.ok_or_else(|| format!("{}: no version in {said}", program.display()))?.to_owned())
}

/// Unpacks the set's packages where the cache lacks them. An older unpacking is used as it is: remove it for new ones.
pub fn unpack(set: &Set) -> Result<Builds, Failed> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    let folder = cache.unwrap_or_else(home).join("tautline/matrix");
    let root = folder.join(set.name);
    if !root.is_dir() {
        fs::create_dir_all(&folder)?;
        let new = folder.join(format!("{}.new", set.name));
        let _ = fs::remove_dir_all(&new);
        println!("{}: unpacking {PACKAGES} into {}", set.name, root.display());
        succeed(mmdebstrap(set, &new)?)?;
        fs::rename(&new, &root)?;
    }
    prepare(root)
}

fn mmdebstrap(set: &Set, folder: &Path) -> Result<Command, Failed> {
    let mirror = mirror()?;
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=extract", "--format=directory", &format!("--include={PACKAGES}")]);
    // A mirror that lags has lists that are out of date by their own word; their signatures are checked all the same.
    command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    if set.backports {
        command.arg(format!("--aptopt=APT::Default-Release \"{}-backports\"", set.suite));
    }
    command.arg(set.suite).arg(folder).arg(format!("deb {mirror} {} main", set.suite));
    if set.backports {
        command.arg(format!("deb {mirror} {}-backports main", set.suite));
    }
    Ok(command)
}

/// Where this machine's apt has Debian from.
fn mirror() -> Result<String, Failed> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "Created-By: Packages", "--format", "$(CODENAME) $(REPO_URI)"]);
    let (targets, release) = (succeed(targets)?, fs::read_to_string("/etc/os-release")?);
    let codename =
        release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or_default();
    let mirror = targets.lines().find_map(|line| line.strip_prefix(codename)?.strip_prefix(' '));
    Ok(mirror.ok_or("apt has no mirror of this system's release (apt-get indextargets)")?.to_owned())
}

/// Programs that run with the libraries of their own root, and the kernel as tests expect it.
fn prepare(root: PathBuf) -> Result<Builds, Failed> {
    let programs = root.with_extension("programs");
    let _ = fs::remove_dir_all(&programs);
    let libraries = root.join(LIBRARIES);
    let run = format!("{0}/ld-linux-x86-64.so.2 --library-path {0}", libraries.display());
    let below = |path: &str| root.join(path).display().to_string();
    let write = |name: &str, script: String| -> Result<PathBuf, Failed> {
        let file = programs.join(name);
        fs::create_dir_all(file.parent().ok_or("no folder")?)?;
        fs::write(&file, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(file)
    };
    let firmware = format!("-L {} -L {}", below("usr/share/qemu"), below("usr/share/seabios"));
    let qemu = format!(
        "QEMU_MODULE_DIR={}/qemu exec {run} {} {firmware} \"$@\"",
        libraries.display(),
        below("usr/bin/qemu-system-x86_64")
    );
    let qemu = write("qemu-system-x86_64", qemu)?;
    let plugins = plugins(&libraries)?;
    let testpmd = format!("exec {run} {} -d {} \"$@\"", below("usr/bin/dpdk-testpmd"), plugins.display());
    let testpmd = write("dpdk-testpmd", testpmd)?;
    let open_vswitch = programs.join("openvswitch");
    for program in ["bin/ovs-vsctl", "bin/ovs-ofctl", "bin/ovs-appctl", "bin/ovsdb-tool", "sbin/ovsdb-server"]
    {
        let program = format!("usr/{program}");
        write(&format!("openvswitch/{program}"), format!("exec {run} {} \"$@\"", below(&program)))?;
    }
    // DPDK in it looks for its drivers where the package would be installed: a mount that ends with the process.
    let switch = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
    let script = format!(
        "exec unshare --mount sh -c 'mount --bind {0}/dpdk /{LIBRARIES}/dpdk && exec {run} {1} \"$@\"' sh \"$@\"",
        libraries.display(),
        below(switch)
    );
    let vswitchd = write(&format!("openvswitch/{switch}"), script)?;
    let schema = "usr/share/openvswitch/vswitch.ovsschema";
    let link = open_vswitch.join(schema);
    fs::create_dir_all(link.parent().ok_or("no folder")?)?;
    symlink(root.join(schema), link)?;
    let ovn = programs.join("ovn");
    for program in ["ovn-nbctl", "ovn-sbctl", "ovn-northd", "ovn-controller"] {
        let program = format!("usr/bin/{program}");
        write(&format!("ovn/{program}"), format!("exec {run} {} \"$@\"", below(&program)))?;
    }
    fs::create_dir_all(ovn.join("usr/share"))?;
    symlink(root.join("usr/share/ovn"), ovn.join("usr/share/ovn"))?;
    let (kernel, linux) = kernel(&root, &programs.join("kernel"))?;
    let versions = Versions {
        qemu: version(&qemu, "emulator version ")?,
        linux,
        dpdk: version(&vswitchd, "DPDK ")?,
        open_vswitch: version(&vswitchd, "(Open vSwitch) ")?,
        ovn: version(&ovn.join("usr/bin/ovn-controller"), "ovn-controller ")?,
    };
    Ok(Builds { qemu, testpmd, open_vswitch, ovn, kernel, versions })
}

fn plugins(libraries: &Path) -> Result<PathBuf, Failed> {
    let folders = fs::read_dir(libraries.join("dpdk"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut folders = folders.filter(|path| path.to_string_lossy().contains("/pmds-"));
    folders.next().ok_or_else(|| format!("no drivers of DPDK in {}", libraries.display()).into())
}

/// The image and its modules side by side, and the version.
fn kernel(root: &Path, folder: &Path) -> Result<(PathBuf, String), Failed> {
    fs::create_dir_all(folder.join("modules"))?;
    let modules = root.join("usr/lib/modules");
    let version = fs::read_dir(&modules)?.next().ok_or("no kernel")??.file_name();
    let version = version.into_string().map_err(|_| "a kernel's version that is no text")?;
    let image = [root.join(format!("boot/vmlinuz-{version}")), modules.join(&version).join("vmlinuz")];
    let image =
        image.iter().find(|path| path.is_file()).ok_or_else(|| format!("no image of Linux {version}"))?;
    let kernel = folder.join(format!("vmlinuz-{version}"));
    symlink(image, &kernel)?;
    symlink(modules.join(&version).join("kernel"), folder.join("modules").join(&version))?;
    Ok((kernel, version.split('+').next().unwrap_or(&version).to_owned()))
}

fn succeed(mut command: Command) -> Result<String, Failed> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
