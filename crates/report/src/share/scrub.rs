//! Removes from texts what names a machine, its network or its users.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Kernel parameters that describe the behaviour of a machine; all others may contain names of disks, networks or
/// persons.
const PARAMETERS: [&str; 44] = [
    "amd_iommu",
    "amd_pstate",
    "audit",
    "clocksource",
    "cpuidle.off",
    "default_hugepagesz",
    "hpet",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "kvm",
    "l1tf",
    "managed_irq",
    "mce",
    "mds",
    "mitigations",
    "nmi_watchdog",
    "no_timer_check",
    "nohz",
    "nohz_full",
    "nopti",
    "nosmt",
    "nosoftlockup",
    "nospectre_v2",
    "nowatchdog",
    "preempt",
    "processor.max_cstate",
    "quiet",
    "rcu_nocb_poll",
    "rcu_nocbs",
    "retbleed",
    "ro",
    "skew_tick",
    "spectre_v2",
    "transparent_hugepage",
    "tsc",
    "tsx",
];
/// Folders that every system has; other paths may contain names of persons and projects.
const COMMON: [&str; 8] = ["/proc/", "/sys/", "/usr/", "/lib/", "/bin/", "/sbin/", "/dev/", "/etc/default/"];
/// Folders below those whose entries are named by the owner of the machine or are its identity.
const OWNED: [&str; 5] = ["/dev/mapper/", "/dev/disk/", "/usr/local/", "/usr/src/", "/sys/fs/cgroup/"];
/// Words in the name of a value that is left out.
const SECRET_KEYS: [&str; 7] = ["password", "passwd", "token", "secret", "apikey", "api_key", "credential"];
/// Options whose value is a file or a host of the user.
const OPTIONS: [&str; 9] =
    ["--output", "--html", "--workloads", "--gate", "--limits", "--identity", "--key", "--assign", "--share"];

/// Names that many machines and users have, and that results hold with another meaning.
const COMMON_NAMES: [&str; 12] = [
    "container",
    "debian",
    "fedora",
    "guest",
    "host",
    "kvm",
    "linux",
    "localhost",
    "qemu",
    "root",
    "tautline",
    "ubuntu",
];
/// Ends of names in the domain name system that are no end of a metric's.
const DOMAINS: [&str; 10] =
    ["com", "corp", "edu", "example", "internal", "intranet", "lan", "local", "localdomain", "org"];

/// Replaces names in texts, and records what it replaced.
#[derive(Clone, Debug, Default)]
pub struct Scrubber {
    /// Names of this machine and its users, in lower case, each with its substitute.
    names: Vec<(String, String)>,
    /// The replaced texts, their substitutes, and the numbers of replacements.
    pub taken: BTreeMap<(String, String), usize>,
}

impl Scrubber {
    /// A scrubber that replaces these names wherever they stand as whole words: pairs of a name and its
    /// substitute.
    pub fn new(names: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        let mut scrubber = Self::default();
        for (name, place) in names {
            let name = name.trim().to_lowercase();
            // A name of one or two letters would be found in every unit.
            if name.chars().count() > 2 && !COMMON_NAMES.contains(&&*name) {
                scrubber.add(&name, place);
            }
        }
        scrubber
    }

    /// Replaces one more name.
    pub(super) fn add(&mut self, name: &str, place: &str) {
        self.names.push((name.to_lowercase(), place.to_owned()));
        // The longest name comes first, because a full name contains the short one.
        self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    }

    fn take(&mut self, text: &str, place: &str) -> String {
        // The text is already a substitute.
        if text.starts_with('\u{2039}') && text.ends_with('\u{203a}') {
            return text.to_owned();
        }
        *self.taken.entry((text.to_owned(), place.to_owned())).or_default() += 1;
        place.to_owned()
    }

    /// Any text.
    pub fn text(&mut self, text: &str) -> String {
        let mut found = String::new();
        let mut key = String::new();
        let named = self.without_names(text);
        for piece in pieces(&named) {
            if piece.chars().all(is_separator) {
                if piece != "=" {
                    key.clear();
                }
                found.push_str(piece);
                continue;
            }
            found.push_str(&if is_secret_key(&key) { self.take(piece, SECRET) } else { self.piece(piece) });
            key = piece.to_lowercase();
        }
        found
    }

    /// A piece without separators, and its parts before and after dots and colons.
    fn piece(&mut self, piece: &str) -> String {
        let core = piece.trim_end_matches(['.', ':', '!', '?']);
        let end = &piece[core.len()..];
        let Some(place) = kind(core) else { return piece.to_owned() };
        self.take(core, place) + end
    }

    fn without_names(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, place) in self.names.clone() {
            let mut from = 0;
            while let Some(at) = find(&text, &name, from) {
                let end = at + name.len();
                let is_inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                if is_inside(text[..at].chars().next_back()) || is_inside(text[end..].chars().next()) {
                    from = end;
                    continue;
                }
                let found = text[at..end].to_owned();
                text.replace_range(at..end, &self.take(&found, &place));
                from = at + place.len();
            }
        }
        text
    }

    /// Scrubs a kernel command line. Parameters that are known to describe the machine's behaviour stay; of the
    /// others only the number is kept.
    pub fn command_line(&mut self, line: &str) -> String {
        let is_known = |word: &&str| {
            let name = word.split('=').next().unwrap_or_default();
            PARAMETERS.contains(&name)
                || ["kvm.", "kvm_intel.", "kvm_amd."].iter().any(|of| name.starts_with(of))
        };
        let (known, others): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().filter(|word| *word != LEFT_OUT).partition(is_known);
        for word in &others {
            self.take(word, LEFT_OUT);
        }
        let mut kept: Vec<String> = known.into_iter().map(|word| self.text(word)).collect();
        if !others.is_empty() || line.contains(LEFT_OUT) {
            kept.push(LEFT_OUT.to_owned());
        }
        kept.join(" ")
    }

    /// Scrubs a command: options stay, names of files are replaced.
    pub fn command(&mut self, words: &[String]) -> Vec<String> {
        let mut is_file = false;
        let mut found = Vec::new();
        for (number, word) in words.iter().enumerate() {
            let scrubbed = match word.split_once('=') {
                Some((option, file)) if OPTIONS.contains(&option) => {
                    format!("{option}={}", self.take(file, PATH))
                }
                _ if is_file => self.take(word, PATH),
                Some((option, value)) if is_secret_key(&option.to_lowercase()) => {
                    format!("{option}={}", self.take(value, SECRET))
                }
                // The program itself.
                _ if number == 0 => "tautline".to_owned(),
                _ => self.text(word),
            };
            is_file = OPTIONS.contains(&word.as_str())
                || (word.starts_with("--") && is_secret_key(&word.to_lowercase()));
            found.push(scrubbed);
        }
        found
    }
}

fn is_secret_key(key: &str) -> bool {
    SECRET_KEYS.iter().any(|word| key.contains(word))
}

const SECRET: &str = "\u{2039}secret\u{203a}";
const PATH: &str = "\u{2039}path\u{203a}";
const LEFT_OUT: &str = "\u{2039}others\u{203a}";
const ADDRESS: &str = "\u{2039}address\u{203a}";
const IDENTITY: &str = "\u{2039}identity\u{203a}";

/// The place of `name`, which is in lower case, from a byte on. Only names in ASCII differ in their case.
fn find(text: &str, name: &str, from: usize) -> Option<usize> {
    text.to_ascii_lowercase().get(from..)?.find(name).map(|at| from + at)
}

/// Whether a character separates pieces of a text. A quotation mark of a substitute separates too, so that a scrubbed
/// text stays unchanged.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || c.is_control() || ",;\"'`()[]{}<>|=*\u{2039}\u{203a}".contains(c)
}

/// Runs of separators and runs of other characters, in turn.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c| is_separator(c) != is_separator(first)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// The substitute for a piece that names something.
fn kind(piece: &str) -> Option<&'static str> {
    if piece.contains("://") {
        return Some("\u{2039}url\u{203a}");
    }
    if piece
        .split_once(':')
        .is_some_and(|(key, value)| is_secret_key(&key.to_lowercase()) && !value.is_empty())
    {
        return Some(SECRET);
    }
    if piece.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()) {
        return Some(ADDRESS);
    }
    if let Some(at) =
        piece.find('/').filter(|at| piece[..*at].is_empty() || piece[..*at].ends_with([':', '~']))
    {
        let path = &piece[at..];
        let is_common =
            COMMON.iter().any(|of| path.starts_with(of)) && !OWNED.iter().any(|of| path.starts_with(of));
        // "/s" and "/ms" are units.
        return (!is_common && path.len() > 3).then_some(PATH);
    }
    let host = piece.split('/').next().unwrap_or_default();
    if is_address(host) || host.rsplit_once(':').is_some_and(|(host, _)| host.parse::<Ipv4Addr>().is_ok()) {
        return Some(ADDRESS);
    }
    if let Some(of) = piece.strip_prefix("remote:") {
        return (!of.is_empty()).then_some("remote:\u{2039}host\u{203a}");
    }
    let labels: Vec<&str> = host.split(':').next().unwrap_or_default().split('.').collect();
    if labels.len() > 1
        && labels.iter().all(|label| !label.is_empty())
        && labels.last().is_some_and(|last| DOMAINS.contains(last))
    {
        return Some("\u{2039}host\u{203a}");
    }
    let digits = piece.chars().filter(char::is_ascii_hexdigit).count();
    let is_hex =
        piece.chars().all(|c| c.is_ascii_hexdigit() || c == '-') && piece.chars().any(|c| c.is_ascii_digit());
    (is_hex && digits >= 32).then_some(IDENTITY)
}

/// Whether it is an address of a network interface, of IP or of Ethernet. `::` stands in names of programs too.
fn is_address(text: &str) -> bool {
    let bare = text.split('%').next().unwrap_or_default();
    let is_ipv6 = bare.parse::<Ipv6Addr>().is_ok() && bare.chars().any(|c| c.is_ascii_hexdigit());
    let pairs: Vec<&str> = text.split([':', '-']).collect();
    let is_mac = pairs.len() == 6
        && pairs.iter().all(|pair| pair.len() == 2 && pair.chars().all(|c| c.is_ascii_hexdigit()));
    text.parse::<Ipv4Addr>().is_ok() || is_ipv6 || is_mac
}
