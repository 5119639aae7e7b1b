//! Lists of CPUs as people write them.

use crate::exit::Usage;
use crate::output;

/// The CPUs of a list such as `0,2-5`, or all that this process may use.
pub fn read(option: &str, list: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let allowed = output::usable_cpus()?;
    let Some(list) = list else { return Ok(allowed) };
    let chosen = linux::cpus::parse(list).map_err(|error| Usage(format!("{option} {list}: {error}")))?;
    if chosen.is_empty() {
        return Err(Usage(format!("{option} {list:?}: it names no CPU; write for example 0,2-5")).into());
    }
    if let Some(cpu) = chosen.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(Usage(format!(
            "{option} {list}: this process may not use CPU {cpu}; it may use {}",
            linux::cpus::list(&allowed)
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
        for bad in ["", ",", "x", "3-1", "0-99999999", "2-N"] {
            let error = read("--cpus", Some(bad)).unwrap_err();
            assert!(error.is::<Usage>() && !error.to_string().contains("or 2-N"), "{error}");
        }
    }
}
