use std::io;
use std::path::PathBuf;

use measure::Failure;

use crate::files::{KIB, MIB, bytes, field, or_unknown, text};
use crate::finding::Finding;
use crate::sys::Mapping;

/// The sizes of page, and the number of pages to allocate of each.
const RESERVED: [(usize, usize); 2] = [(2 * MIB, 8), (1024 * MIB, 1)];

/// Maps and touches reserved huge pages of 2 MiB and 1 GiB, and transparent ones.
///
/// # Errors
/// No reserved huge page of either size (2 MiB, 1 GiB) can be mapped and touched, and `madvise` brings no transparent
/// huge page.
pub fn run() -> Result<Finding, Failure> {
    let mut details = Vec::new();
    let mut reserved_works = false;
    for (page_bytes, count) in RESERVED {
        let answer = match reserved(page_bytes, count) {
            Ok(obtained) => {
                reserved_works = true;
                format!("{obtained} obtained and touched")
            }
            Err(error) => format!("none obtained ({error}; {})", pool(page_bytes)),
        };
        details.push(format!("MAP_HUGETLB {}: {answer}", bytes(page_bytes)));
    }
    let mode = or_unknown(text("/sys/kernel/mm/transparent_hugepage/enabled"));
    let transparent = transparent();
    details.push(match &transparent {
        Ok(obtained) => format!("transparent by madvise: {obtained} in smaps ({mode})"),
        Err(error) => format!("transparent by madvise: {error} ({mode})"),
    });
    let detail = details.join("; ");
    let reserve = "reserve pages: `sysctl vm.nr_hugepages=512`; 1 GiB pages best on the kernel's command line: \
                   hugepagesz=1G hugepages=4";
    let advise = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    Ok(match (reserved_works, transparent.is_ok()) {
        (true, true) => Finding::proven(detail),
        (true, false) => Finding::partial(detail, advise),
        (false, true) => Finding::partial(detail, reserve),
        (false, false) => {
            return Err(Failure::new("asking for huge pages", detail, format!("{reserve}; {advise}")));
        }
    })
}

/// Takes up to `count` pages of the reserved pool and really uses them.
fn reserved(page_bytes: usize, count: usize) -> io::Result<usize> {
    let mut pages = Vec::new();
    while pages.len() < count {
        // One by one: a pool smaller than `count` counts too.
        let page = Mapping::huge(page_bytes).and_then(|page| page.populate().map(|()| page));
        match page {
            Ok(page) => pages.push(page),
            Err(error) if pages.is_empty() => return Err(error.into()),
            Err(_) => break,
        }
    }
    let kernel_page_kib = pages.first().and_then(|page| smaps_kib(page, "KernelPageSize:"));
    match kernel_page_kib {
        Some(kib) if kib as usize * KIB == page_bytes => Ok(pages.len()),
        other => Err(io::Error::other(format!("mapped, but KernelPageSize in smaps is {other:?} KiB"))),
    }
}

fn pool(page_bytes: usize) -> String {
    let folder = PathBuf::from(format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes / 1024));
    if !folder.exists() {
        return "this kernel or CPU has none of this size".into();
    }
    let number = |name: &str| or_unknown(text(folder.join(name)));
    format!("pool {}, free {}", number("nr_hugepages"), number("free_hugepages"))
}

/// Asks for transparent huge pages and looks in smaps how many there are.
fn transparent() -> Result<String, String> {
    // 2 MiB on most kernels, 512 MiB on arm64 with pages of 64 KiB.
    let page_bytes = text("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").parse().unwrap_or(2 * MIB);
    let wanted_bytes = (16 * MIB).max(2 * page_bytes);
    let memory = Mapping::anonymous(wanted_bytes).map_err(|error| error.to_string())?;
    memory.prefer_huge_pages().map_err(|error| error.to_string())?;
    memory.populate().map_err(|error| error.to_string())?;
    let obtained_kib = smaps_kib(&memory, "AnonHugePages:").ok_or("not found in /proc/self/smaps")?;
    let obtained = format!("{} of {}", bytes(obtained_kib as usize * 1024), bytes(wanted_bytes));
    if obtained_kib > 0 { Ok(obtained) } else { Err(obtained) }
}

/// The number of a line about this mapping in /proc/self/smaps.
fn smaps_kib(memory: &Mapping, name: &str) -> Option<u64> {
    let smaps = text("/proc/self/smaps");
    let covers = |line: &str| {
        let range = line.split_once(' ').map(|(range, _)| range)?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        (start..end).contains(&memory.address()).then_some(())
    };
    // The kernel may have joined the mapping with a neighbour: the range covers it, no more.
    let area = smaps.lines().position(|line| covers(line).is_some())?;
    let area: Vec<&str> = smaps.lines().skip(area + 1).take_while(|line| !line.contains('-')).collect();
    field(&area.join("\n"), name)
}
