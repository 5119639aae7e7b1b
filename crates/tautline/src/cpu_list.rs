//! Lists of CPUs as the user writes them.

use linux::cpus::{self, ChooseError};

use crate::exit::Usage;
use crate::output;

/// The CPUs of a list such as `0,2-5`, or all that this process may use.
pub fn read(option: &str, list: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let Some(list) = list else { return output::usable_cpus() };
    cpus::choose(list).map_err(|error| match error {
        ChooseError::System(_) => error.into(),
        error => Usage(format!("{option} {list:?}: {error}")).into(),
    })
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
