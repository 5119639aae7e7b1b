//! Lists of CPUs as people write them.

use crate::exit::Usage;
use crate::output;

/// The CPUs of a list such as `0,2-5`, or all that this process may use.
pub fn read(option: &str, list: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let allowed = output::usable_cpus()?;
    let Some(list) = list else { return Ok(allowed) };
    let wrong =
        |part: &str| Usage(format!("{option} {list}: {part:?} is no CPU or range; write for example 0,2-5"));
    let mut chosen = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) else {
            return Err(wrong(part).into());
        };
        if first > last || last >= nix::sched::CpuSet::count() {
            return Err(wrong(part).into());
        }
        chosen.extend(first..=last);
    }
    chosen.sort_unstable();
    chosen.dedup();
    if let Some(cpu) = chosen.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(Usage(format!(
            "{option} {list}: this process may not use CPU {cpu}; it may use {allowed:?}"
        ))
        .into());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert!(read("--cpus", Some("0")).is_ok_and(|list| list == [0]));
        for bad in ["", "x", "3-1", "0-99999999", "0,,1"] {
            assert!(read("--cpus", Some(bad)).unwrap_err().is::<Usage>(), "{bad}");
        }
    }
}
