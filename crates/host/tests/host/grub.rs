//! GRUB's files, in every way in which people write them: planned, changed as planned, and sourced by a shell.

use std::fs;
use std::path::Path;
use std::process::Command;

use host::boot_line::Loader;
use host::{Edit, HostTree, Plan, Survey, recorded};

use super::Host;

const FILE: &str = "etc/default/grub";

/// A host of four CPUs with these files and no parameter of a plan on its command line: five are planned.
fn with(files: &[(&str, &str)]) -> Host {
    const HOST: &str = "/proc/cmdline: ro quiet\n/proc/cpuinfo: vendor_id : GenuineIntel\n\
        /sys/devices/system/cpu/online: 0-3\n/sys/devices/system/cpu/isolated: \n\
        /sys/devices/system/cpu/nohz_full: \n/sys/module/rcupdate/parameters/rcu_normal_after_boot: 0\n";
    let folder = tempfile::tempdir().unwrap();
    recorded::unpack(HOST, folder.path()).unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Host { tree: HostTree::at(folder.path()), folder, wishes: super::wishes("2-3".parse().unwrap()) }
}

fn grub(host: &Host) -> (Vec<String>, Loader) {
    let boot = Plan::of(&Survey::of(&host.tree, &host.wishes).unwrap()).boot.unwrap();
    (boot.parameters, boot.loaders.into_iter().find(|loader| loader.name == "GRUB").unwrap())
}

/// Does what the plan says, as a person with an editor would.
fn change(root: &Path, edits: &[Edit]) {
    // From the end, so that numbers of lines stay.
    for edit in edits.iter().rev() {
        let path = root.join(edit.file.trim_start_matches('/'));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().collect();
        match edit.number {
            None => lines.push(&edit.line),
            Some(number) => {
                let now = edit.now.as_ref().unwrap();
                let count = now.lines().count();
                // A host is read without the blanks at a file's end.
                let there = lines[number - 1..][..count].join("\n");
                assert_eq!(there.trim_end(), now.trim_end(), "{edit:?}");
                lines.splice(number - 1..number - 1 + count, [edit.line.as_str()]);
            }
        }
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }
}

/// The parameters that `grub-mkconfig` gives the kernel.
fn sourced(root: &Path, shell: &str) -> Vec<String> {
    const SCRIPT: &str = "set -e; . ./etc/default/grub; for x in ./etc/default/grub.d/*.cfg; do \
                          if [ -e \"$x\" ]; then . \"$x\"; fi; done; \
                          printf '%s' \"$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\"";
    let output = Command::new(shell)
        .args(["-c", SCRIPT])
        .current_dir(root)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

fn key(parameter: &str) -> String {
    parameter.split('=').next().unwrap().replace('-', "_")
}

/// Plans, changes, sources: each planned parameter is there once, and all others are as before.
#[track_caller]
fn holds(files: &[(&str, &str)], shell: &str) -> Vec<Edit> {
    let host = with(files);
    let root = host.folder.path();
    let before = sourced(root, shell);
    let (planned, loader) = grub(&host);
    assert_eq!((planned.len(), &loader.not_understood), (5, &None), "{files:?}");
    change(root, &loader.edits);
    let after = sourced(root, shell);
    let is_planned = |word: &&String| planned.iter().any(|new| key(new) == key(word));
    let others =
        |words: &[String]| words.iter().filter(|word| !is_planned(word)).cloned().collect::<Vec<_>>();
    assert_eq!(others(&after), others(&before), "{files:?}\n{:#?}", loader.edits);
    let mut new: Vec<&String> = after.iter().filter(is_planned).collect();
    new.sort();
    new.dedup();
    let mut wanted: Vec<&String> = planned.iter().collect();
    wanted.sort();
    assert_eq!(new, wanted, "{files:?}\n{:#?}", loader.edits);
    // Done as planned, the file needs no other change.
    assert_eq!(grub(&host).1.edits, [], "{files:?}");
    loader.edits
}

const PLANNED: &str = "isolcpus=managed_irq,domain,2,3 nohz_full=2,3 rcu_nocbs=2,3 rcupdate.rcu_normal_after_boot=1 skew_tick=1";

#[test]
fn parameters_are_changed_where_they_stand() {
    for (text, wanted) in [
        ("GRUB_CMDLINE_LINUX='net.ifnames=0'", vec![format!("GRUB_CMDLINE_LINUX='net.ifnames=0 {PLANNED}'")]),
        (
            "GRUB_CMDLINE_LINUX=\"quiet a=1\"  # serial console: see _DEFAULT",
            vec![format!("GRUB_CMDLINE_LINUX=\"quiet a=1 {PLANNED}\"  # serial console: see _DEFAULT")],
        ),
        (
            "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=2 nohz_full=2 rcu_nocbs=2\"\nGRUB_CMDLINE_LINUX=\"\"",
            vec![
                "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=managed_irq,domain,2,3 nohz_full=2,3 rcu_nocbs=2,3\"".into(),
                "GRUB_CMDLINE_LINUX=\"rcupdate.rcu_normal_after_boot=1 skew_tick=1\"".into(),
            ],
        ),
        ("GRUB_DEFAULT=0", vec![format!("GRUB_CMDLINE_LINUX=\"{PLANNED}\"")]),
        ("GRUB_CMDLINE_LINUX=quiet", vec![format!("GRUB_CMDLINE_LINUX=quiet\" {PLANNED}\"")]),
        (
            "GRUB_CMDLINE_LINUX=\"quiet \\\n  skew_tick=0 \\\n  splash\"; GRUB_TIMEOUT=5",
            vec![
                "  skew_tick=1 \\".into(),
                "  splash isolcpus=managed_irq,domain,2,3 nohz_full=2,3 rcu_nocbs=2,3 rcupdate.rcu_normal_after_boot=1\"; \
                 GRUB_TIMEOUT=5"
                    .into(),
            ],
        ),
    ] {
        let edits = holds(&[(FILE, text)], "sh");
        assert_eq!(edits.iter().map(|edit| edit.line.clone()).collect::<Vec<_>>(), wanted, "{text}");
        assert!(edits.iter().all(|edit| edit.file == "/etc/default/grub"));
    }
    let plus = "GRUB_CMDLINE_LINUX=\"a=1\"\nGRUB_CMDLINE_LINUX+=\" isolcpus=2\"";
    let edits = holds(&[(FILE, plus)], "bash");
    assert_eq!(
        edits.iter().map(|edit| (edit.number, edit.line.as_str())).collect::<Vec<_>>(),
        [(Some(2), format!("GRUB_CMDLINE_LINUX+=\" {PLANNED}\"").as_str())]
    );
}

#[test]
fn drop_ins_are_read_in_the_order_of_the_shell() {
    let edits = holds(
        &[
            (FILE, "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=1\"\nGRUB_CMDLINE_LINUX=\"a=1\""),
            ("etc/default/grub.d/10-no.conf", "GRUB_CMDLINE_LINUX=\"isolcpus=9\""),
            ("etc/default/grub.d/50-cloud.cfg", "# cloud\nGRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0\"\n"),
            (
                "etc/default/grub.d/9-kdump.cfg",
                "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT nohz_full=1\"",
            ),
        ],
        "sh",
    );
    let lines: Vec<(&str, Option<usize>)> =
        edits.iter().map(|edit| (edit.file.as_str(), edit.number)).collect();
    // What stands in a value that a later file replaces is left alone.
    assert_eq!(lines, [("/etc/default/grub", Some(2)), ("/etc/default/grub.d/9-kdump.cfg", Some(1))]);
}

#[test]
fn what_is_not_understood_is_said_and_nothing_is_planned_there() {
    for (text, words) in [
        ("if true; then\nGRUB_CMDLINE_LINUX=quiet\nfi", "line 1: \"if true; then\" is no assignment"),
        ("GRUB_TIMEOUT=5\n. /etc/other", "line 2: \". /etc/other\" is no assignment"),
        ("GRUB_CMDLINE_LINUX=\"quiet", "line 1: a quote that does not end"),
        ("GRUB_CMDLINE_LINUX=\"root=$(findmnt -n /) quiet\"", "depends on $(findmnt -n /)"),
        ("GRUB_CMDLINE_LINUX=\"root=`findmnt -n /` quiet\"", "depends on `findmnt -n /`"),
        ("GRUB_CMDLINE_LINUX=\"quiet $MORE\"", "depends on $MORE, which no file sets"),
        ("A=${B:-1}\nGRUB_CMDLINE_LINUX=\"quiet $A\"", "depends on ${B:-1}"),
        (
            "CPUS=2\nGRUB_CMDLINE_LINUX=\"isolcpus=$CPUS\"",
            "\"isolcpus=2\" is put together from several places",
        ),
        ("GRUB_CMDLINE_LINUX=(a b)", "behind an assignment"),
        ("GRUB_CMDLINE_LINUX=a & b", "\"& b\" is no assignment"),
        ("A=skew_tick=0\nGRUB_CMDLINE_LINUX=\"$A x$A\"", "changes others too"),
        (&format!("A={}\nGRUB_CMDLINE_LINUX=\"{}\"", "x".repeat(40_000), "$A".repeat(2)), "too long"),
        (&"$(".repeat(100_000), "is no assignment"),
        (&format!("A={}", "$(".repeat(100_000)), "too deep"),
    ] {
        let host = with(&[(FILE, text)]);
        let (_, loader) = grub(&host);
        let said = loader.not_understood.unwrap_or_else(|| panic!("{text}: {:?}", loader.edits));
        assert!(said.contains(words) && loader.edits.is_empty(), "{text}: {said}");
    }
    let host = with(&[(FILE, "unset GRUB_CMDLINE_LINUX")]);
    let text = host.plan().render(200);
    assert!(text.contains("GRUB: /etc/default/grub, line 1: \"unset GRUB_CMDLINE_LINUX\" is no assignment; put the parameters in by hand"), "{text}");
}

#[test]
fn what_distributions_ship_is_understood() {
    for text in [
        // Debian 12 and 13, Fedora, SUSE.
        "# comment\nGRUB_DEFAULT=0\nGRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`\n\
         GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n#GRUB_TERMINAL=console\n",
        "GRUB_DISTRIBUTOR=`( . /etc/os-release; echo ${NAME:-Debian} ) 2>/dev/null || echo Debian`\n\
         GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
        "GRUB_TIMEOUT=5\nGRUB_DISTRIBUTOR=\"$(echo 'a )' | sed 's, release .*$,,g')\"\nGRUB_CMDLINE_LINUX=\"rhgb quiet\"\n\
         GRUB_DISABLE_RECOVERY=\"true\"\nexport GRUB_TIMEOUT\n",
        "GRUB_DISTRIBUTOR=\nGRUB_CMDLINE_LINUX_DEFAULT=\"splash=silent resume=/dev/sda2 mitigations=auto quiet\"\n\
         GRUB_CMDLINE_LINUX=\"\"\nSUSE_BTRFS_SNAPSHOT_BOOTING=\"true\"\n",
    ] {
        holds(&[(FILE, text)], "sh");
    }
}

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// A word of the shell, which may hold parameters of a plan: each piece quoted in another way.
fn word(numbers: &mut Numbers, known: &[&str]) -> String {
    const PARAMETERS: [&str; 14] = [
        "quiet",
        "a=1",
        "root=/dev/sda1",
        "isolcpus=2",
        "isolcpus=domain,1-3",
        "nohz_full=1",
        "nohz-full=2",
        "rcu_nocbs=all",
        "skew_tick=1",
        "skew-tick=0",
        "rcupdate.rcu_normal_after_boot=0",
        "console=ttyS0,115200n8",
        "x",
        "isolcpus",
    ];
    let mut text = String::new();
    for number in 0..numbers.below(4) {
        let blank = if number > 0 { " " } else { "" };
        let pieces: Vec<&str> = (0..=numbers.below(3)).map(|_| numbers.of(&PARAMETERS)).collect();
        let joined = |between: &str| pieces.join(between);
        text += &match numbers.below(6) {
            0 => format!("'{blank}{}'", joined(" ")),
            1 => format!("\"{blank}{}\"", joined("  ")),
            2 => format!("\"{blank}{}\"", joined(" \\\n ")),
            3 => format!("\"{blank}{} \\\"b\\\" \\$c\"", joined("\t")),
            4 => format!("{}{}", if number > 0 { "\\ " } else { "" }, joined("\\ ")),
            _ if known.is_empty() => format!("\"{blank}\""),
            _ => format!("\"{blank}${{{}}} {}\"", numbers.of(known), joined(" ")),
        };
    }
    text
}

fn file(numbers: &mut Numbers) -> String {
    const NAMES: [&str; 4] = ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_TIMEOUT", "MINE"];
    let mut known = vec![];
    let mut text = String::new();
    for _ in 0..=numbers.below(5) {
        text += numbers.of(&["", "", "# it's a comment\n", "  ", "\n", "GRUB_X=`echo \"a\" ; echo 'b'` "]);
        let name = numbers.of(&NAMES);
        text += &format!("{name}={}", word(numbers, &known));
        text += numbers.of(&["\n", "\n", " # as $said \"here\n", ";", "; \n", " "]);
        known.push(name);
    }
    text + numbers.of(&["", "\n"])
}

#[test]
fn files_made_of_pieces_of_the_grammar_are_changed_as_planned() {
    let mut numbers = Numbers(7);
    let mut refused = 0;
    for _ in 0..300 {
        let (first, second) = (file(&mut numbers), file(&mut numbers));
        let mut files = vec![(FILE, first.as_str())];
        if numbers.below(2) == 0 {
            files.push(("etc/default/grub.d/50-more.cfg", &second));
        }
        let host = with(&files);
        // Two values that share text, or a parameter whose parts are quoted unlike, are told, never changed wrongly.
        if let Some(reason) = grub(&host).1.not_understood {
            assert!(
                reason.contains("several places") || reason.contains("no file sets"),
                "{files:?}: {reason}"
            );
            refused += 1;
            continue;
        }
        holds(&files, "sh");
    }
    assert!(refused < 100, "{refused} of 300");
}
