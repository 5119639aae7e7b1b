//! `scripts/setup.sh compare` in clean roots of Debian's releases, which mmdebstrap makes: each has a kernel with its
//! modules at the end. Packages come from the mirror that this machine's apt uses; the roots are kept in the cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A release, and the packages of its backports where they are to be preferred.
struct Release {
    name: &'static str,
    suite: &'static str,
    backports: bool,
    /// Of its kernel's version.
    kernel: &'static str,
}

const RELEASES: [Release; 4] = [
    Release { name: "bookworm", suite: "bookworm", backports: false, kernel: "6.1." },
    Release { name: "trixie", suite: "trixie", backports: false, kernel: "6.12." },
    // Image and modules in packages of their own.
    Release { name: "trixie-backports", suite: "trixie", backports: true, kernel: "7." },
    Release { name: "sid", suite: "sid", backports: false, kernel: "7." },
];

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", all(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn all(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Where this machine's apt has Debian from.
fn mirror() -> String {
    let targets = said(
        Command::new("apt-get")
            .args(["indextargets", "Created-By: Packages"])
            .args(["--format", "$(CODENAME) $(REPO_URI)"]),
    );
    let release = fs::read_to_string("/etc/os-release").unwrap();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap();
    let of_release = targets.lines().find_map(|line| line.strip_prefix(&format!("{codename} ")));
    of_release.unwrap_or_else(|| panic!("apt has no mirror of {codename}")).to_owned()
}

/// How it reaches the mirror, as apt's configuration. A mirror that lags has lists that are out of date by their own
/// word; their signatures are checked all the same.
fn configuration() -> String {
    let settings = said(Command::new("apt-config").arg("dump"));
    let proxies = settings.lines().filter(|line| line.starts_with("Acquire::") && line.contains("Proxy"));
    proxies.fold("Acquire::Check-Valid-Until \"false\";\n".to_owned(), |all, line| all + line + "\n")
}

/// The root's archive, made where the cache has none.
fn archive(release: &Release) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    let folder = cache.join("tautline/roots");
    let archive = folder.join(release.name).with_extension("tar");
    if !archive.is_file() {
        fs::create_dir_all(&folder).unwrap();
        let new = archive.with_extension("new.tar");
        let mut command = Command::new("mmdebstrap");
        command.args(["--quiet", "--variant=apt", "--format=tar", release.suite]).arg(&new);
        let (mirror, suite) = (mirror(), release.suite);
        command.arg(format!("deb {mirror} {suite} main"));
        if release.backports {
            command.arg(format!("deb {mirror} {suite}-backports main"));
            command.arg(format!("--aptopt=APT::Default-Release \"{suite}-backports\""));
        }
        for line in configuration().lines() {
            command.arg(format!("--aptopt={}", line.trim_end_matches(';')));
        }
        said(&mut command);
        fs::rename(new, &archive).unwrap();
    }
    archive
}

/// What set-up says in a root of the release, and the kernels that it has fetched.
fn set_up(release: &Release) -> (Output, TempDir) {
    let root = TempDir::new().unwrap();
    said(Command::new("tar").arg("-xf").arg(archive(release)).arg("-C").arg(root.path()));
    // A Rust from elsewhere, as users of these releases have it.
    for (name, says) in [("rustc", "rustc 1.999.0 (stand-in)"), ("cargo", "")] {
        let file = root.path().join("usr/local/bin").join(name);
        fs::write(&file, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh");
    fs::copy(script, root.path().join("setup.sh")).unwrap();
    for file in ["etc/resolv.conf", "etc/hosts"] {
        fs::copy(Path::new("/").join(file), root.path().join(file)).unwrap();
    }
    // The mounts end with the processes.
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    command.arg("mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /setup.sh compare").arg(root.path());
    command
        .env("HOME", "/root")
        .env_remove("XDG_CACHE_HOME")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    (command.output().unwrap(), root)
}

#[test]
#[ignore = "long: makes four roots and installs QEMU and a compiler in each; make test-setup"]
fn each_release_gets_a_kernel_with_its_modules() {
    for release in &RELEASES {
        let (output, root) = set_up(release);
        let said = all(&output);
        assert_eq!(output.status.code(), Some(0), "{}: {said}", release.name);
        let kernels = root.path().join("root/.cache/tautline/kernel");
        let names =
            fs::read_dir(&kernels).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let images: Vec<String> =
            names.filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_owned())).collect();
        let [version] = &*images else { panic!("{}: {images:?}: {said}", release.name) };
        println!("{}: {version}", release.name);
        assert!(version.starts_with(release.kernel), "{}: {version}", release.name);
        assert!(fs::metadata(kernels.join(format!("vmlinuz-{version}"))).unwrap().len() > 1 << 20);
        let drivers = kernels.join("modules").join(version).join("drivers/net");
        let driver = fs::read_dir(&drivers)
            .unwrap()
            .any(|file| file.unwrap().file_name().to_string_lossy().starts_with("virtio_net.ko"));
        assert!(driver, "{}: no virtio_net in {}: {said}", release.name, drivers.display());
    }
}
