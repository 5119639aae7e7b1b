//! The bond of a port, as users write it: options of every kind of port, with the names that they have in Open vSwitch.
use std::collections::BTreeMap;
use std::time::Duration;

use control::{BOND_OPTIONS, OptionValue};
use switch::{BondMode, BondOptions};

use crate::error::Invalid;

/// Bytes of the longest name of a bond.
const NAME_BYTES: usize = 64;

/// The shortest time between two moves of load, as in Open vSwitch.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Takes the options of a bond out of those of a port.
///
/// # Errors
/// The mode or the interval is invalid or was given without a bond, or the name is empty or too long.
pub fn take(options: &mut BTreeMap<String, OptionValue>) -> Result<Option<BondOptions>, Invalid> {
    let [name, mode, interval] = BOND_OPTIONS.map(|key| options.remove(key).map(|value| value.to_string()));
    let wrong = |why: String| Err(Invalid(why));
    let Some(name) = name else {
        let [_, mode_key, interval_key] = BOND_OPTIONS;
        let alone = mode.map(|mode| (mode_key, mode)).or(interval.map(|interval| (interval_key, interval)));
        return alone.map_or(Ok(None), |(key, value)| {
            wrong(format!("{key}={value}: name the bond too, as in bond=uplink"))
        });
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
    let rebalance_interval = match interval.as_deref().map(str::parse::<u32>) {
        None => Some(BondOptions::REBALANCE_INTERVAL),
        Some(Ok(0)) => None,
        Some(Ok(ms)) => Some(Duration::from_millis(ms.into()).max(SHORTEST_INTERVAL)),
        Some(Err(_)) => {
            let (key, text) = (BOND_OPTIONS[2], interval.unwrap_or_default());
            return wrong(format!("{key}={text}: write milliseconds, 0 for never"));
        }
    };
    Ok(Some(BondOptions { name, mode, rebalance_interval }))
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
        let of = |mode| Ok(Some(BondOptions { mode, ..BondOptions::new("b") }));
        assert_eq!(taken(&[("bond", "b")]), of(BondMode::ActiveBackup));
        assert_eq!(taken(&[("bond", "b"), ("bond_mode", "balance-slb")]), of(BondMode::BalanceSlb));
        let interval = |ms| taken(&[("bond", "b"), ("bond-rebalance-interval", ms)]).unwrap().unwrap();
        let expected = [None, Some(Duration::from_secs(1)), Some(Duration::from_millis(2500))];
        assert_eq!(["0", "7", "2500"].map(|ms| interval(ms).rebalance_interval), expected);
        for (options, said) in [
            (&[("bond-rebalance-interval", "1000")][..], "name the bond too"),
            (&[("bond", "b"), ("bond-rebalance-interval", "-1")], "write milliseconds"),
            (&[("bond_mode", "balance-slb")], "name the bond too"),
            (&[("bond", "b"), ("bond_mode", "balance-tcp")], "write active-backup or balance-slb"),
            (&[("bond", "")], "1 to 64 bytes"),
        ] {
            let error = taken(options).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
