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
#[path = "../tests/unit/cpu_list.rs"]
mod tests;
