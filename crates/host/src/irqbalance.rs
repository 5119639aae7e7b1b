//! The CPUs to which irqbalance moves no interrupt, computed as in releases 1.8 to 1.9.5 (`setup_banned_cpus` in
//! cputree.c, parsers in bitmap.c): a mask in `IRQBALANCE_BANNED_CPUS`, else a list in `IRQBALANCE_BANNED_CPULIST`,
//! else the CPUs that the kernel keeps isolated or without a tick. An empty variable counts as unset.

use super::cpu_list::CpuList;
use super::survey::ISOLATED;
use super::tree::{HostTree, Unread};

const MASK: &str = "IRQBALANCE_BANNED_CPUS";
const LIST: &str = "IRQBALANCE_BANNED_CPULIST";
const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";
/// irqbalance's `NR_CPUS`.
const MOST_CPUS: usize = 4096;

const UPSTREAM: &str = "/etc/irqbalance.env";
const RED_HAT: &str = "/etc/sysconfig/irqbalance";
const DEBIAN: &str = "/etc/default/irqbalance";
/// The order in which upstream's unit names them: a variable of a later file replaces that of an earlier one.
const FILES: [&str; 3] = [UPSTREAM, RED_HAT, DEBIAN];

/// The CPUs to which irqbalance moves no interrupt, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Banned {
    /// The banned CPUs.
    pub cpus: CpuList,
    /// The setting that decides the ban, in words.
    pub source: String,
    /// Whether a mask decides the ban: a list has no effect then.
    pub by_mask: bool,
}

/// One variable, and where it is set.
type Setting = Option<(String, String)>;

/// The CPUs that a running irqbalance bans. The environment of irqbalance's process decides. If the host has no file
/// of that environment, as in a recording of another program, irqbalance's configuration files decide.
///
/// # Errors
/// The process's environment, one of irqbalance's configuration files, or the kernel's list of isolated or tickless
/// CPUs exists and may not be read.
pub fn banned(tree: &HostTree, process: i32) -> Result<Banned, Unread> {
    let [mask, list] = match tree.environment(process, [MASK, LIST]) {
        Ok(values) => values.map(|value| value.map(|value| (value, "its environment".to_owned()))),
        Err(unread) if unread.is_absent() => of_files(tree)?,
        Err(unread) => return Err(unread),
    };
    let is_set = |setting: &(String, String)| !setting.0.is_empty();
    let source = |name: &str, value: &str, place: &str| format!("{name}={value:?} in {place}");
    if let Some((value, place)) = mask.filter(is_set) {
        return Ok(Banned { cpus: parse_mask(&value), source: source(MASK, &value, &place), by_mask: true });
    }
    if let Some((value, place)) = list.filter(is_set) {
        return Ok(Banned { cpus: parse_list(&value), source: source(LIST, &value, &place), by_mask: false });
    }
    let read = |path: &str| match tree.read(path) {
        Ok(text) if !text.is_empty() => Ok(parse_list(&text)),
        Err(unread) if !unread.is_absent() => Err(unread),
        _ => Ok(CpuList::default()),
    };
    let cpus = read(ISOLATED)?.or(&read(NOHZ_FULL)?);
    Ok(Banned {
        cpus,
        source: "the kernel's isolated and nohz_full, for nothing else is set".into(),
        by_mask: false,
    })
}

/// The file that irqbalance's unit reads on this distribution.
pub fn file(tree: &HostTree) -> &'static str {
    match () {
        () if tree.has("/etc/debian_version") => DEBIAN,
        () if tree.has("/etc/redhat-release") => RED_HAT,
        () => FILES.into_iter().rfind(|file| tree.has(file)).unwrap_or(UPSTREAM),
    }
}

fn of_files(tree: &HostTree) -> Result<[Setting; 2], Unread> {
    let mut settings = [None, None];
    for file in FILES {
        let text = match tree.read(file) {
            Ok(text) => text,
            Err(unread) if unread.is_absent() => continue,
            Err(unread) => return Err(unread),
        };
        for (name, value) in assignments(&text) {
            match name.as_str() {
                MASK => settings[0] = Some((value, file.to_owned())),
                LIST => settings[1] = Some((value, file.to_owned())),
                _ => {}
            }
        }
    }
    Ok(settings)
}

/// The CPUs of a list as irqbalance reads it: those of all parts before the first wrong one. An empty part is CPU 0.
fn parse_list(text: &str) -> CpuList {
    let mut cpus = CpuList::default();
    let mut has_digits = false;
    // A comma at the very end begins no part; blanks may stand at the end, and before the first digit.
    for part in text.strip_suffix(',').unwrap_or(text.trim_ascii_end()).split(',') {
        let part = if has_digits { part } else { part.trim_ascii_start() };
        has_digits |= !part.is_empty();
        let (first, last) = match part.split_once('-') {
            Some(("", _)) => return cpus,
            Some(ends) => ends,
            None => (part, part),
        };
        let (Some(first), Some(last)) = (number(first), number(last)) else { return cpus };
        if first > last || last >= MOST_CPUS {
            return cpus;
        }
        cpus = cpus.or(&(first..=last).collect());
    }
    cpus
}

/// Decimal digits; none are 0.
fn number(text: &str) -> Option<usize> {
    match text {
        "" => Some(0),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// The CPUs of a mask as irqbalance reads it: the words before the first wrong one.
fn parse_mask(text: &str) -> CpuList {
    let is_word = |word: &&str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_hexdigit())
            && word.trim_start_matches('0').len() <= 8
    };
    let words: Vec<&str> = text.trim_ascii().split(',').take_while(is_word).collect();
    CpuList::from_mask(&words.join(",")).unwrap_or_default()
}

/// The variables of a file as `EnvironmentFile=` of systemd.exec(5) has them, in its order. Quotes are taken off a
/// value that stands in one pair of them. Other quotes stay: irqbalance stops at them, so that no CPU counts as banned
/// by mistake.
fn assignments(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", "");
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let parts = lines.filter_map(|line| line.split_once('='));
    parts.map(|(name, value)| (name.trim_end().to_owned(), unquote(value.trim_start()).to_owned())).collect()
}

fn unquote(value: &str) -> &str {
    let inside =
        |quote: char| value.strip_prefix(quote)?.strip_suffix(quote).filter(|text| !text.contains(quote));
    inside('\'').or_else(|| inside('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values and results of irqbalance's parsers; a booted guest holds the same values against the program itself.
    #[test]
    fn lists_and_masks_are_read_as_irqbalance_reads_them() {
        for (text, cpus) in [
            ("2-3", "2,3"),
            ("2-N", ""),
            ("4-3", ""),
            ("0,2-N", "0"),
            ("'0'", ""),
            ("2,,3", "0,2,3"),
            ("2-3,", "2,3"),
            (",", "0"),
            ("2-", ""),
            ("0-", "0"),
            ("-2", ""),
            ("1-2-3", ""),
            ("2, 3", "2"),
            ("2 ,3", ""),
            (" 2-3 ", "2,3"),
            ("2-4096", ""),
            ("+2", ""),
            ("18446744073709551618", ""),
            (" (null)", ""),
        ] {
            assert_eq!(parse_list(text), cpus.parse().unwrap(), "{text:?}");
        }
        for (text, cpus) in [
            ("c", "2,3"),
            ("0000000c", "2,3"),
            ("0,c", "2,3"),
            ("c,00000001", "0,34,35"),
            ("0xc", ""),
            ("c,x", "2,3"),
            ("c,", "2,3"),
            (",c", ""),
            ("+c", ""),
            ("1c0000000c", ""),
        ] {
            assert_eq!(parse_mask(text), cpus.parse().unwrap(), "{text:?}");
        }
    }

    #[test]
    fn files_of_variables_are_read_as_systemd_reads_them() {
        let text = "# X=1\n;X=2\n X = 3 \nY='4'\nY=\"5\"\nZ=2-3,\\\n4\nA=2\"3\"\nB='1''2'\nexport C=1\nD=\n";
        let all = assignments(text);
        let all: Vec<(&str, &str)> =
            all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let same = [("X", "3"), ("Y", "4"), ("Y", "5"), ("Z", "2-3,4"), ("A", "2\"3\""), ("B", "'1''2'")];
        assert_eq!(all[..6], same);
        assert_eq!(all[6..], [("export C", "1"), ("D", "")]);
    }
}
