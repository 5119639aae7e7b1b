//! The bond of a port, as users write it: options of every kind of port, with the names that they have in Open vSwitch.
use std::collections::BTreeMap;

use control::{BOND_OPTIONS, OptionValue};
use switch::{BondMode, BondOptions};

use crate::error::Invalid;

/// Bytes of the longest name of a bond.
const NAME_BYTES: usize = 64;

/// Takes the options of a bond out of those of a port.
///
/// # Errors
/// The mode is unknown or there is no bond beside it, or the name is empty or too long.
pub fn take(options: &mut BTreeMap<String, OptionValue>) -> Result<Option<BondOptions>, Invalid> {
    let [name, mode] = BOND_OPTIONS.map(|key| options.remove(key).map(|value| value.to_string()));
    let wrong = |why: String| Err(Invalid(why));
    let Some(name) = name else {
        return match mode {
            None => Ok(None),
            Some(mode) => wrong(format!("bond_mode={mode}: name the bond too, as in bond=uplink")),
        };
    };
    if name.is_empty() || name.len() > NAME_BYTES {
        return wrong(format!("bond={name:.64}: write a name of 1 to {NAME_BYTES} bytes"));
    }
    let known = |text: &str| BondMode::ALL.into_iter().find(|mode| mode.name() == text);
    let mode = match mode.as_deref() {
        None => BondMode::default(),
        Some(text) => match known(text) {
            Some(mode) => mode,
            None => {
                let names = BondMode::ALL.map(BondMode::name).join(" or ");
                return wrong(format!("bond_mode={text}: unknown value; write {names}"));
            }
        },
    };
    Ok(Some(BondOptions { name, mode }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(options: &[(&str, &str)]) -> Result<Option<BondOptions>, String> {
        let value = |(key, text): &(&str, &str)| ((*key).to_owned(), OptionValue::Text((*text).to_owned()));
        let mut options: BTreeMap<_, _> = options.iter().map(value).collect();
        take(&mut options).map_err(|Invalid(why)| why)
    }

    #[test]
    fn a_bond_has_a_name_and_a_mode() {
        assert_eq!(taken(&[]), Ok(None));
        let of = |mode| Ok(Some(BondOptions { name: "b".to_owned(), mode }));
        assert_eq!(taken(&[("bond", "b")]), of(BondMode::ActiveBackup));
        assert_eq!(taken(&[("bond", "b"), ("bond_mode", "balance-slb")]), of(BondMode::BalanceSlb));
        for (options, said) in [
            (&[("bond_mode", "balance-slb")][..], "name the bond too"),
            (&[("bond", "b"), ("bond_mode", "balance-tcp")], "write active-backup or balance-slb"),
            (&[("bond", "")], "1 to 64 bytes"),
        ] {
            let error = taken(options).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
