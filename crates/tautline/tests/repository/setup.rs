//! `scripts/setup.sh` says what it will install before it does so, and asks before it uses sudo, on a terminal only.
//! apt-get, sudo and the user are stand-ins that print what they are asked for: nothing is installed here.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What the script itself runs; all other commands are missing on this machine.
const TOOLS: [&str; 17] = [
    "sh", "env", "uname", "sed", "grep", "ls", "sort", "head", "tail", "cut", "tr", "mktemp", "chmod", "rm",
    "mkdir", "cp", "mv",
];
/// What the stand-in for `apt-get install` brings.
const INSTALLED: &str = "cc qemu-system-x86_64 qemu-system-aarch64 crun runc xz zstd nft ip nsenter";

/// The driver of the card that the default run measures in a guest.
const CARD: &str = "kernel/drivers/net/ethernet/intel/e1000/e1000.ko.xz";

/// A machine that lacks all but a recent Rust and a kernel.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new(user: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for tool in TOOLS {
            symlink(found(tool), bin.join(tool)).unwrap();
        }
        let machine = Machine { folder };
        let stand_in = |name: &str, script: &str| machine.stand_in(name, script);
        stand_in("id", &format!("echo {user}"));
        stand_in("rustc", "echo 'rustc 1.999.0 (stand-in)'");
        stand_in("cargo", "");
        stand_in("apt-cache", "");
        // Its words go where apt-get's warnings go.
        let install = format!(
            "echo \"RAN apt-get $*\" >&2\n[ \"$1\" = install ] || exit 0\nfor name in {INSTALLED}; do cp '{bin}/cargo' '{bin}'/$name; done",
            bin = bin.display()
        );
        stand_in("apt-get", &install);
        stand_in(
            "sudo",
            "echo \"RAN sudo $*\" >&2\n[ \"$1\" != -n ] || shift\n[ \"$1\" = true ] || exec \"$@\"",
        );
        let kernel = machine.kernels();
        fs::create_dir_all(&kernel).unwrap();
        fs::write(kernel.join("vmlinuz-1"), "an image").unwrap();
        let card = kernel.join("modules/1").join(CARD.strip_prefix("kernel/").unwrap());
        fs::create_dir_all(card.parent().unwrap()).unwrap();
        fs::write(card, "a module").unwrap();
        fs::write(kernel.join("modules/1/parts"), "drivers/net").unwrap();
        machine
    }

    fn stand_in(&self, name: &str, script: &str) {
        let file = self.folder.path().join("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Where set-up keeps kernels.
    fn kernels(&self) -> PathBuf {
        self.folder.path().join("cache/tautline/kernel")
    }

    fn without(self, tool: &str) -> Self {
        fs::remove_file(self.folder.path().join("bin").join(tool)).unwrap();
        self
    }

    /// What it printed, and its exit code. On a terminal `answer` is typed; otherwise there is none.
    fn set_up(&self, answer: Option<&str>) -> (String, Option<i32>) {
        self.set_up_for("", answer)
    }

    fn set_up_for(&self, purpose: &str, answer: Option<&str>) -> (String, Option<i32>) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh");
        let script = format!("{} {purpose} 2>&1", script.to_str().unwrap());
        let mut command = match answer {
            // Runs a command on a terminal of its own.
            Some(_) => Command::new(found("script")),
            None => Command::new(found("sh")),
        };
        match answer {
            Some(_) => command.args(["-q", "-e", "-c", &script, "/dev/null"]),
            None => command.args(["-c", &script]),
        };
        let mut child = command
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("SHELL", "/bin/sh")
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut keyboard = child.stdin.take().unwrap();
        keyboard.write_all(answer.unwrap_or_default().as_bytes()).unwrap();
        drop(keyboard);
        let output = child.wait_with_output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }
}

fn found(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let file = std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file());
    file.unwrap_or_else(|| panic!("{tool} is not installed; `make setup` runs on systems that have it"))
}

/// Where each of `parts` stands, one behind the other.
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} behind the others in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

const QUESTION: &str = "use sudo for this? [Y/n]";

#[test]
fn on_a_terminal_it_shows_what_is_missing_and_asks_before_it_uses_sudo() {
    for answer in ["\n", "y\n", "Yes\n"] {
        let (text, code) = Machine::new(1000).set_up(Some(answer));
        assert_in_order(
            &text,
            &["to be installed:", "gcc", QUESTION, "RAN sudo apt-get update", "RAN sudo env"],
        );
        assert_in_order(&text, &["RAN apt-get install", "gcc"]);
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn a_no_leaves_the_machine_alone_and_prints_the_command() {
    for answer in ["n\n", "no\n", "whatever\n", ""] {
        let (text, code) = Machine::new(1000).set_up(Some(answer));
        assert_in_order(
            &text,
            &["to be installed:", QUESTION, "sudo apt-get install --no-install-recommends", "gcc"],
        );
        assert!(!text.contains("RAN"), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }
}

#[test]
fn without_a_terminal_it_goes_on_by_itself() {
    let (text, code) = Machine::new(1000).set_up(None);
    assert_in_order(
        &text,
        &["to be installed:", "gcc", "RAN sudo -n apt-get update", "RAN apt-get install", "gcc"],
    );
    assert!(!text.contains(QUESTION), "{text}");
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn root_is_not_asked_and_needs_no_sudo() {
    for answer in [None, Some("n\n")] {
        let (text, code) = Machine::new(0).set_up(answer);
        assert_in_order(
            &text,
            &["to be installed:", "gcc", "RAN apt-get update", "RAN apt-get install", "gcc"],
        );
        assert!(!text.contains(QUESTION) && !text.contains("RAN sudo"), "{text}");
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn without_sudo_or_apt_it_prints_what_to_install() {
    for answer in [None, Some("y\n")] {
        let (text, code) = Machine::new(1000).without("sudo").set_up(answer);
        assert_in_order(
            &text,
            &["to be installed:", "gcc", "sudo apt-get install --no-install-recommends", "gcc"],
        );
        assert!(!text.contains("RAN") && !text.contains(QUESTION), "{text}");
        assert_eq!(code, Some(1), "{text}");

        let (text, code) = Machine::new(1000).without("apt-get").set_up(answer);
        assert_in_order(&text, &["has no apt-get; please install", "gcc"]);
        assert!(!text.contains("RAN") && !text.contains(QUESTION), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }
}

/// `make compare TAUTLINE=FILE`: nothing is built, so neither a compiler nor Rust is asked for.
#[test]
fn a_program_that_is_there_needs_no_rust() {
    let machine = Machine::new(0).without("rustc");
    let (text, code) = machine.set_up_for("run", None);
    assert_in_order(&text, &["to be installed:", "crun", "RAN apt-get install"]);
    assert!(!text.contains("gcc") && !text.contains("Rust"), "{text}");
    assert_eq!(code, Some(0), "{text}");
    let (text, code) = machine.set_up(None);
    assert!(text.contains("Rust 1.91 or later"), "{text}");
    assert_eq!(code, Some(1), "{text}");

    // The line of the build is run all the same (`+`): it builds with `:`.
    let makefile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Makefile");
    let make = |arguments: &[&str]| {
        let mut command = Command::new("make");
        command.args(["-n", "CARGO=:", "-f"]).arg(&makefile).arg("compare").args(arguments);
        let output = command.current_dir(makefile.parent().unwrap()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let own = make(&["TAUTLINE=./tautline", "ARGS=--only os"]);
    assert_in_order(&own, &["setup.sh run", "./tautline compare --quick", "--only os"]);
    assert!(!own.contains("build"), "{own}");
    let built = make(&[]);
    assert_in_order(
        &built,
        &[": build --profile compare", "--no-default-features", "compare/tautline compare --quick"],
    );
}

#[test]
fn what_apt_did_not_bring_is_named_at_the_end() {
    let machine = Machine::new(0);
    machine.stand_in("apt-get", "");
    let (text, code) = machine.set_up(None);
    assert_in_order(&text, &["to be installed:", "gcc", "missing still", "gcc"]);
    assert_eq!(code, Some(1), "{text}");
}

/// A machine that lacks a kernel alone. Packages are folders of files; `depends` has lines of a package and one that
/// it depends on.
fn without_kernel(depends: &str, packages: &[(&str, &[&str])]) -> Machine {
    let machine = Machine::new(0);
    fs::remove_dir_all(machine.kernels()).unwrap();
    let shelf = machine.folder.path().join("packages");
    for (package, files) in packages {
        for file in *files {
            let file = shelf.join(package).join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "content").unwrap();
        }
    }
    for name in INSTALLED.split(' ') {
        machine.stand_in(name, "");
    }
    fs::write(shelf.join("depends"), depends).unwrap();
    let shelf = shelf.display();
    // The package is the last word.
    machine.stand_in(
        "apt-cache",
        &format!(
            "for package in \"$@\"; do :; done\nsed -n \"s/^$package /  Depends: /p\" '{shelf}/depends'"
        ),
    );
    machine.stand_in(
        "apt-get",
        "[ \"$1\" = download ] || exit 0\nshift 2\nfor package in \"$@\"; do : >\"$package.deb\"; done",
    );
    machine.stand_in(
        "dpkg",
        &format!("package=${{2##*/}}\nmkdir -p \"$3\"\ncp -R '{shelf}'/\"${{package%.deb}}\"/. \"$3\""),
    );
    machine
}

/// The metapackage that set-up asks for first.
const META: &str =
    if cfg!(target_arch = "aarch64") { "linux-image-cloud-arm64" } else { "linux-image-cloud-amd64" };
const DRIVER: &str = "kernel/drivers/net/virtio_net.ko.xz";

#[test]
fn a_kernel_comes_with_its_modules_however_its_packages_are_split() {
    let boot = "boot/vmlinuz-1";
    let (card, merged_card) = (&*format!("lib/modules/1/{CARD}"), &*format!("usr/lib/modules/1/{CARD}"));
    let (modules, merged) = (&*format!("lib/modules/1/{DRIVER}"), &*format!("usr/lib/modules/1/{DRIVER}"));
    let image = format!("{META} linux-image-1\n");
    let split = format!("{image}linux-image-1 linux-modules-1\n");
    let split_in_three = format!("{split}linux-image-1 linux-base-1\nlinux-image-1 linux-binary-1\n");
    let debian_12: &[(&str, &[&str])] = &[("linux-image-1", &[boot, modules, card])];
    let debian_13: &[(&str, &[&str])] = &[("linux-image-1", &[boot, merged, merged_card])];
    let ubuntu: &[(&str, &[&str])] = &[("linux-image-1", &[boot]), ("linux-modules-1", &[modules, card])];
    let debian_14: &[(&str, &[&str])] = &[
        ("linux-image-1", &["usr/share/doc/linux-image-1/copyright"]),
        ("linux-binary-1", &["usr/lib/modules/1/vmlinuz"]),
        ("linux-modules-1", &[merged, merged_card]),
    ];
    for (depends, packages) in
        [(&image, debian_12), (&image, debian_13), (&split, ubuntu), (&split_in_three, debian_14)]
    {
        let machine = without_kernel(depends, packages);
        let (text, code) = machine.set_up(None);
        assert_eq!(code, Some(0), "{packages:?}: {text}");
        let names = |folder: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&machine.kernels()), ["modules", "vmlinuz-1"], "{text}");
        assert_eq!(names(&machine.kernels().join("modules")), ["1"], "{text}");
        assert!(machine.kernels().join("modules/1/drivers/net/virtio_net.ko.xz").is_file(), "{text}");
    }
}

#[test]
fn packages_without_an_image_or_without_modules_are_no_kernel() {
    let depends = format!("{META} linux-image-1\n");
    let modules = &*format!("lib/modules/1/{DRIVER}");
    for (files, why) in [
        (&["boot/vmlinuz-1"][..], "no modules for it"),
        (&[modules], "gave no kernel image"),
        (&["usr/share/doc/linux-image-1/copyright"], "gave no kernel image"),
    ] {
        let machine = without_kernel(&depends, &[("linux-image-1", files)]);
        let (text, code) = machine.set_up(None);
        assert_in_order(&text, &["fetching linux-image-1", why, "no stock kernel could be fetched"]);
        assert_eq!(code, Some(1), "{text}");
        assert!(!machine.kernels().join("vmlinuz-1").exists(), "{text}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_generic_kernel_comes_too_where_the_cloud_one_lacks_the_card_s_driver() {
    let depends = format!("{META} linux-image-1-cloud\nlinux-image-amd64 linux-image-1\n");
    let module = |version: &str, module: &str| format!("lib/modules/{version}/{module}");
    let (driver, card) = (module("1-cloud", DRIVER), module("1", CARD));
    let cloud: (&str, &[&str]) = ("linux-image-1-cloud", &["boot/vmlinuz-1-cloud", &driver]);
    let generic: (&str, &[&str]) = ("linux-image-1", &["boot/vmlinuz-1", &card]);
    let machine = without_kernel(&depends, &[cloud, generic]);
    let (text, code) = machine.set_up(None);
    assert_eq!(code, Some(0), "{text}");
    assert_in_order(&text, &["fetching linux-image-1-cloud", "fetching linux-image-1 "]);
    let cards = machine.kernels().with_file_name("kernel-cards");
    assert!(cards.join("vmlinuz-1").is_file(), "{text}");
    assert!(cards.join("modules/1").join(CARD.strip_prefix("kernel/").unwrap()).is_file(), "{text}");
    let (text, code) = machine.set_up(None);
    assert_eq!((&*text, code), ("", Some(0)), "the second call has nothing to do");

    // A distribution without such a kernel goes without that path, and is told which.
    let (text, code) = without_kernel(&depends, &[cloud]).set_up(None);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("compare leaves out the network path guest_e1000_tap"), "{text}");
}

#[test]
fn it_says_how_much_it_will_fetch() {
    let machine = Machine::new(0);
    fs::remove_dir_all(machine.kernels()).unwrap();
    machine.stand_in("apt-cache", &format!(
        "for package in \"$@\"; do :; done\ncase \"$1 $package\" in\n'depends {META}') echo '  Depends: linux-image-1' ;;\n\
         'show linux-image-1') printf 'Package: linux-image-1\\nSize: 26713492\\n' ;;\nesac"
    ));
    machine.stand_in(
        "apt-get",
        "[ \"$1\" != --print-uris ] || printf \"'http://a/%s' %s 1500000 SHA256:0\\n\" gcc.deb gcc.deb nft.deb nft.deb",
    );
    let (text, _) = machine.set_up(None);
    let line = |words: &str| {
        text.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {text}"))
    };
    assert!(line("(Debian's names)").ends_with(", 3 MB to fetch"), "{text}");
    assert!(line("a stock kernel for the guest").ends_with(", 27 MB to fetch"), "{text}");
}
