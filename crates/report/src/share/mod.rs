//! One archive of a run that can be shared: results, audit and doctor, without names of the machine, its network
//! or its users. The archive is a JSON document. [`check`] says whether it may be published.

mod scrub;

use std::collections::BTreeMap;

use measure::{Group, Results};
use serde_json::{Map, Value, json};

pub use scrub::Scrubber;

/// The schema of an archive.
pub const SCHEMA: &str = "tautline-shared/1";

/// The archive of a run. The scrubber records what was removed.
pub fn archive(
    results: &Results,
    audit: Option<Value>,
    doctor: Option<Value>,
    scrubber: &mut Scrubber,
) -> Value {
    let results = anonymous(results, scrubber);
    let results = serde_json::to_value(&results).unwrap_or_default();
    let mut whole = json!({ "schema": SCHEMA, "results": scrubbed(results, scrubber) });
    for (name, document) in [("audit", audit), ("doctor", doctor)] {
        if let Some(document) = document {
            whole[name] = scrubbed(document, scrubber);
        }
    }
    whole
}

/// The fields whose form says what of them may stay.
fn anonymous(results: &Results, scrubber: &mut Scrubber) -> Results {
    let mut results = results.clone();
    // Two environments stay two: each has a name of its own that says no more than its place.
    for (place, environment) in results.environments.iter().enumerate() {
        if Scrubber::default().text(&environment.name) != environment.name {
            scrubber.add(&environment.name, &format!("environment{}", place + 1));
        }
    }
    results.command = scrubber.command(&results.command);
    results.host.command_line = scrubber.command_line(&results.host.command_line);
    // A program that the user brought has a name of the user's.
    let own = results.metrics.iter_mut().filter(|spec| spec.group == Group::External);
    let mut ids = BTreeMap::new();
    for (number, spec) in own.enumerate() {
        let id = measure::MetricId::new(format!("external.program{}", number + 1));
        spec.title = format!("program {} of the user", number + 1);
        ids.insert(std::mem::replace(&mut spec.id, id.clone()), id);
    }
    let renamed = |id: &mut measure::MetricId| {
        if let Some(new) = ids.get(id) {
            *id = new.clone();
        }
    };
    results.trials.iter_mut().for_each(|trial| renamed(&mut trial.metric));
    results.absences.iter_mut().for_each(|absence| renamed(&mut absence.metric));
    results
}

/// A document with every text scrubbed, keys too.
fn scrubbed(value: Value, scrubber: &mut Scrubber) -> Value {
    match value {
        Value::String(text) => Value::String(scrubber.text(&text)),
        Value::Array(values) => values.into_iter().map(|value| scrubbed(value, scrubber)).collect(),
        Value::Object(fields) => {
            let fields =
                fields.into_iter().map(|(key, value)| (scrubber.text(&key), scrubbed(value, scrubber)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Reasons why an archive must not be published; empty if there are none.
pub fn check(archive: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    if archive["schema"] != SCHEMA {
        return vec![format!("its schema is {}, not \"{SCHEMA}\"", archive["schema"])];
    }
    match results(archive) {
        Err(error) => wrong.push(format!("its results cannot be read: {error}")),
        Ok(results) => {
            if results.trials.is_empty() {
                wrong.push("it holds no trial".into());
            }
            let mut scrubber = Scrubber::default();
            let again = self::archive(
                &results,
                archive.get("audit").cloned(),
                archive.get("doctor").cloned(),
                &mut scrubber,
            );
            for ((text, place), _) in scrubber.taken {
                wrong.push(format!("it holds {text:?}, where {place} should stand"));
            }
            if wrong.is_empty() && again != *archive {
                wrong.push(
                    "it differs from what `tautline report FILE --share FILE` makes of its results".into(),
                );
            }
        }
    }
    wrong
}

/// The results in an archive.
///
/// # Errors
/// The results lack a field, or a field has another type.
pub fn results(archive: &Value) -> Result<Results, serde_json::Error> {
    serde_json::from_value(archive["results"].clone())
}

/// Text for checking the archive before it is written: what was removed, and which texts stay. Names of metrics
/// and texts of each trial are left out.
pub fn preview(archive: &Value, scrubber: &Scrubber) -> String {
    let mut text = String::from("taken out:\n");
    for ((taken, place), times) in &scrubber.taken {
        text += &format!("  {} -> {place} ({times} times)\n", crate::units::text(taken));
    }
    text += "kept:\n";
    let results = &archive["results"];
    for name in ["command", "started", "host", "environments", "absences"] {
        text += &format!("  {name}: {}\n", crate::units::text(&results[name].to_string()));
    }
    for name in ["audit", "doctor"] {
        match archive.get(name) {
            None => text += &format!("  {name}: none\n"),
            Some(document) => text += &format!("  {name}: {}\n", crate::units::text(&document.to_string())),
        }
    }
    let count = |name: &str| results[name].as_array().map_or(0, Vec::len);
    text + &format!("  and {} metrics, {} trials\n", count("metrics"), count("trials"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Failure, example};

    /// A run with one secret of each kind, at the place where runs have it.
    fn planted() -> (Results, Value, Value, Vec<&'static str>) {
        let mut results = example::results();
        results.command = [
            "/home/walburga/src/tautline",
            "compare",
            "--environments",
            "host,remote:rack7-node3,remote:rack7-node4",
            "--output",
            "moonshot-q3.json",
            "--workloads=/srv/moonshot/own.toml",
            "--token",
            "hunter2correct",
        ]
        .map(str::to_owned)
        .into();
        results.host.command_line =
            "BOOT_IMAGE=/vmlinuz-6.1 root=UUID=3e6be9de-8139-4a1c-9106-a43f08d823a6 ip=198.51.100.7 nfsroot=filer-zurich:/export \
             isolcpus=managed_irq,domain,2-5 rd.luks.key=swordfish console=ttyS0"
                .into();
        results.host.kernel = "6.1.0-42-amd64 #1 SMP walburga@forge-basel.corp 2026".into();
        results.host.hypervisor = "guest of Kettensaege".into();
        results.environments[1].name = "remote:rack7-node3".into();
        results.environments[2].name = "remote:rack7-node4".into();
        for trial in &mut results.trials {
            if let Some(at) = ["host", "container", "vm"]
                .iter()
                .position(|name| *name == trial.environment)
                .filter(|at| *at > 0)
            {
                trial.environment = results.environments[at].name.clone();
            }
        }
        results.environments[1]
            .facts
            .push(("peer".into(), "2001:db8:77::42 and 192.0.2.200/24 by 52:54:00:ab:cd:ef".into()));
        results.environments[1].facts.push(("kernel".into(), "/home/walburga/vmlinuz-secretbuild".into()));
        results.environments[2].failure = Some(Failure::new(
            "connecting to https://metrics.moonshot.example/push?u=9",
            "walburga: 4a1d07c2f3b84e6f9d0e5a6b7c8d9e0f refused password=tr0ub4dor",
            "mail ops@moonshot.example, or see /srv/moonshot/README",
        ));
        results.trials[0].outcome.remarks.push("slow disk /dev/mapper/vgsecret-lv on KETTENSAEGE".into());
        let own = results.metrics.iter_mut().find(|spec| spec.group == Group::External).unwrap();
        own.title = "Projectmoonshot inference".into();
        let audit = json!({ "schema": "tautline-host-audit/1", "found": "irq of nic at 10.20.30.40:4789, api_key:zx81zx81" });
        let doctor = json!({ "schema": "tautline-doctor/1", "detail": "image /root/.cache/walburga-cache/x; fe80::1ff%eth0" });
        let secrets = vec![
            "walburga",
            "rack7-node3",
            "rack7-node4",
            "moonshot",
            "hunter2correct",
            "3e6be9de",
            "198.51.100.7",
            "filer-zurich",
            "swordfish",
            "forge-basel",
            "kettensaege",
            "2001:db8",
            "192.0.2.200",
            "52:54:00",
            "secretbuild",
            "4a1d07c2",
            "tr0ub4dor",
            "vgsecret",
            "10.20.30.40",
            "zx81zx81",
            "fe80::1ff",
            "u=9",
        ];
        (results, audit, doctor, secrets)
    }

    fn names() -> Scrubber {
        Scrubber::new([
            ("walburga".into(), "\u{2039}user\u{203a}"),
            ("kettensaege".into(), "\u{2039}host\u{203a}"),
            ("vm".into(), "\u{2039}host\u{203a}"),
        ])
    }

    #[test]
    fn an_archive_contains_none_of_the_planted_secrets() {
        let (results, audit, doctor, secrets) = planted();
        assert!(secrets.len() >= 20);
        let before = format!("{}{audit}{doctor}", serde_json::to_string(&results).unwrap()).to_lowercase();
        for secret in &secrets {
            assert!(before.contains(secret), "{secret} was not planted");
        }
        let mut scrubber = names();
        let archive = archive(&results, Some(audit), Some(doctor), &mut scrubber);
        let after = archive.to_string().to_lowercase();
        for secret in &secrets {
            let at = after
                .find(secret)
                .map(|at| after[at.saturating_sub(60)..].chars().take(160).collect::<String>());
            assert_eq!(at, None, "{secret} is in the archive");
        }
        // What the figures need is still there.
        for kept in ["isolcpus=managed_irq,domain,2-5", "6.1.0-42-amd64", "Example CPU 9000", "crun 1.8.1"] {
            assert!(archive.to_string().contains(kept), "{kept}");
        }
        let kept = super::results(&archive).unwrap();
        assert_eq!(kept.trials.len(), results.trials.len());
        let analysis = (measure::compare::analyse(&results), measure::compare::analyse(&kept));
        assert_eq!(analysis.0.comparisons.len(), analysis.1.comparisons.len());
        assert_eq!(check(&archive), Vec::<String>::new());
        let shown = preview(&archive, &scrubber);
        assert!(
            shown.contains("walburga -> ") && shown.contains("isolcpus=") && shown.contains(" trials"),
            "{shown}"
        );
    }

    #[test]
    fn a_checker_names_what_an_archive_should_not_hold() {
        let whole = archive(&example::results(), None, None, &mut Scrubber::default());
        assert_eq!(check(&whole), Vec::<String>::new());
        assert!(check(&json!({ "schema": "tautline-compare/1" }))[0].contains("its schema is"));
        assert!(check(&json!({ "schema": SCHEMA, "results": {} }))[0].contains("cannot be read"));
        for (place, secret) in [
            ("distribution", "Debian at 192.0.2.9"),
            ("kernel", "6.1 by max@build.corp"),
            ("command_line", "quiet root=/dev/sda1"),
        ] {
            let mut leaks = whole.clone();
            leaks["results"]["host"][place] = secret.into();
            assert!(!check(&leaks).is_empty(), "{secret}");
        }
    }

    #[test]
    fn figures_units_and_versions_stay_as_they_are() {
        let mut scrubber = names();
        for text in [
            "460 /s",
            "12 ns/KiB",
            "I/O load",
            "os.pipe.latency",
            "QEMU 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3), machine q35",
            "/proc/sys/kernel/sched_rt_runtime_us: 950000",
            "0000:00:1f.2",
            "2026-01-02T03:04:05Z",
            "tautline-compare/1",
            "6.18.44-fc-v657",
            "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz",
            "std::io",
            "vm",
            "",
            "×1.20 [1.19, 1.22]",
        ] {
            assert_eq!(scrubber.text(text), text);
        }
        assert_eq!(scrubber.taken.len(), 0);
    }
}
