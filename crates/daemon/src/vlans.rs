//! The VLANs of a port, as users write them: options of every kind of port, with the names and meanings that they have in
//! Open vSwitch.
use std::collections::{BTreeMap, BTreeSet};

use control::{OptionValue, VLAN_OPTIONS};
use switch::{PriorityTags, VlanMode, VlanOptions};

use crate::error::Invalid;

/// Takes the options of VLANs out of those of a port. As in Open vSwitch, a mode ignores options that do not apply
/// to it, and a port with a tag and without a mode is an access port.
///
/// # Errors
/// A VLAN is no number from 0 to 4095, or a mode, a type of tag or a way with priorities is unknown.
pub fn take(options: &mut BTreeMap<String, OptionValue>) -> Result<VlanOptions, Invalid> {
    let [tag, trunks, mode, cvlans, service, priority_tags] =
        VLAN_OPTIONS.map(|key| options.remove(key).map(|value| value.to_string()));
    let mode = mode.map(|text| one_of("vlan_mode", &text, &VlanMode::ALL, VlanMode::name)).transpose()?;
    let is_8021q = |text: String| one_of("qinq-ethtype", &text, &[false, true], service_name);
    let priority = |text: String| one_of("priority-tags", &text, &PriorityTags::ALL, PriorityTags::name);
    Ok(VlanOptions {
        mode,
        tag: tag.map(|text| vlan("tag", &text)).transpose()?,
        trunks: vlans("trunks", trunks.as_deref())?,
        cvlans: vlans("cvlans", cvlans.as_deref())?,
        is_service_8021q: service.map(is_8021q).transpose()?.unwrap_or_default(),
        priority_tags: priority_tags.map(priority).transpose()?.unwrap_or_default(),
    })
}

fn vlan(key: &str, text: &str) -> Result<u16, Invalid> {
    let vlan = text.parse().ok().filter(|vlan| *vlan <= 4095);
    vlan.ok_or_else(|| Invalid(format!("{key}={text}: write VLANs from 0 (no tag) to 4095, as 10 or 10+20")))
}

fn vlans(key: &str, text: Option<&str>) -> Result<BTreeSet<u16>, Invalid> {
    text.iter().flat_map(|text| text.split('+')).map(|text| vlan(key, text)).collect()
}

fn service_name(is_8021q: bool) -> &'static str {
    if is_8021q { "802.1q" } else { "802.1ad" }
}

fn one_of<T: Copy>(
    key: &str,
    text: &str,
    values: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, Invalid> {
    let found = values.iter().copied().find(|value| name(*value) == text);
    found.ok_or_else(|| {
        let names = values.iter().map(|value| name(*value)).collect::<Vec<_>>().join(", ");
        Invalid(format!("{key}={text}: unknown value; write one of {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(options: &[(&str, &str)]) -> Result<VlanOptions, String> {
        let value = |(key, text): &(&str, &str)| ((*key).to_owned(), OptionValue::Text((*text).to_owned()));
        let mut options: BTreeMap<_, _> = options.iter().map(value).collect();
        let vlans = take(&mut options).map_err(|Invalid(why)| why)?;
        assert_eq!(options.into_keys().collect::<Vec<_>>(), ["mtu"]);
        Ok(vlans)
    }

    #[test]
    fn vlans_are_taken_and_other_options_stay() {
        assert_eq!(taken(&[("mtu", "9000")]), Ok(VlanOptions::default()));
        let access = VlanOptions { tag: Some(10), ..VlanOptions::default() };
        assert_eq!(taken(&[("mtu", "9000"), ("tag", "10")]), Ok(access));
        let native = VlanOptions {
            mode: Some(VlanMode::NativeUntagged),
            tag: Some(1),
            trunks: [0, 20, 4095].into(),
            ..VlanOptions::default()
        };
        let options = [("mtu", "1"), ("vlan_mode", "native-untagged"), ("tag", "1"), ("trunks", "4095+20+0")];
        assert_eq!(taken(&options), Ok(native));
        let tunnel = VlanOptions {
            mode: Some(VlanMode::Dot1qTunnel),
            tag: Some(100),
            cvlans: [7].into(),
            is_service_8021q: true,
            priority_tags: PriorityTags::IfNonzero,
            ..VlanOptions::default()
        };
        let options = [
            ("mtu", "1"),
            ("vlan_mode", "dot1q-tunnel"),
            ("tag", "100"),
            ("cvlans", "7"),
            ("qinq-ethtype", "802.1q"),
            ("priority-tags", "if-nonzero"),
        ];
        assert_eq!(taken(&options), Ok(tunnel));
    }

    /// Open vSwitch takes each value of each of its columns beside any other.
    #[test]
    fn any_options_may_stand_beside_each_other() {
        let modes = VlanMode::ALL.map(|mode| Some(mode.name()));
        for mode in modes.into_iter().chain([None]) {
            for (tag, trunks) in [(true, true), (true, false), (false, true), (false, false)] {
                let options =
                    [("tag", "10"), ("trunks", "20"), ("mtu", "1"), ("vlan_mode", mode.unwrap_or(""))];
                let is_given = [tag, trunks, true, mode.is_some()];
                let options: Vec<_> = options
                    .into_iter()
                    .zip(is_given)
                    .filter(|(_, given)| *given)
                    .map(|(option, _)| option)
                    .collect();
                assert!(taken(&options).is_ok(), "{options:?}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (options, said) in [
            (&[("tag", "4096")][..], "tag=4096: write VLANs from 0"),
            (&[("tag", "ten")], "tag=ten"),
            (&[("trunks", "10,20")], "trunks=10,20"),
            (&[("trunks", "10++20")], "trunks=:"),
            (&[("cvlans", "-1")], "cvlans=-1"),
            (
                &[("vlan_mode", "hybrid")],
                "write one of access, trunk, native-tagged, native-untagged, dot1q-tunnel",
            ),
            (&[("qinq-ethtype", "0x9100")], "write one of 802.1ad, 802.1q"),
            (&[("priority-tags", "yes")], "write one of never, if-nonzero, always"),
        ] {
            let error = taken(options).unwrap_err();
            assert!(error.contains(said), "{options:?}: {error}");
        }
    }
}
