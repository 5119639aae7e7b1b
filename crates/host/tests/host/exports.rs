//! Exports, judged by the tools they are for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use host::{CpuList, Plan, Profile, Survey, export};

use super::Host;

fn guest(cpus: &str, memory_mib: u64) -> export::Guest {
    let list = |text: &str| text.parse::<CpuList>().unwrap();
    export::Guest::new("realtime-guest", list(cpus), list("0-1"), memory_mib).unwrap()
}

#[test]
fn libvirts_own_schema_takes_the_domain() {
    for (cpus, memory) in [("2", 512), ("2-5", 4096), ("4-27,60-83", 65536)] {
        let guest = guest(cpus, memory);
        let domain = export::libvirt(&guest);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("domain.xml");
        std::fs::write(&file, &domain).unwrap();
        let output = Command::new("virt-xml-validate").arg(&file).arg("domain").output();
        let output = output.expect("virt-xml-validate: scripts/setup.sh test installs it");
        assert!(output.status.success(), "{}\n{domain}", String::from_utf8_lossy(&output.stderr));
        // A published example pins vCPUs that its guest does not have.
        let count = cpus.parse::<CpuList>().unwrap().len();
        assert_eq!(domain.matches("<vcpupin ").count(), count);
        assert!(domain.contains(&format!("<vcpu placement=\"static\">{count}</vcpu>")));
        assert!(!domain.contains(&format!("vcpu=\"{count}\"")), "{domain}");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let domain = export::libvirt(&guest("2", 512)).replace("<locked/>", "<lokked/>");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("domain.xml");
    std::fs::write(&file, domain).unwrap();
    let output = Command::new("virt-xml-validate").arg(&file).arg("domain").output().unwrap();
    assert!(!output.status.success());
}

/// Where set-up keeps what judges.
fn cache(name: &str) -> PathBuf {
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    let folder = folder.unwrap_or_else(home).join("tautline").join(name);
    assert!(folder.is_dir(), "{}: scripts/setup.sh test fetches it", folder.display());
    folder
}

fn judge(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/judges").join(name)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Nova's own schema, on the `--property KEY=VALUE` of an export.
fn novas_schema(text: &str) -> Output {
    let words = text.lines().filter_map(|line| line.trim().strip_prefix("--property "));
    let specs: Vec<&str> = words.map(|spec| spec.trim_end_matches('\\').trim()).collect();
    assert!(specs.len() > 5, "{text}");
    let python = cache("nova").join("bin/python3");
    Command::new(python).arg(judge("nova_extra_specs.py")).args(specs).output().unwrap()
}

#[test]
fn novas_own_schema_takes_the_flavor() {
    for cpus in ["2", "2-5", "4-27,60-83"] {
        let flavor = export::nova(&guest(cpus, 4096));
        let output = novas_schema(&flavor);
        assert!(output.status.success(), "{flavor}{}", said(&output));
    }
    let flavor = export::nova(&guest("2-5", 4096));
    for (right, wrong) in
        [("hw:cpu_policy=dedicated", "hw:cpu_policy=exclusive"), ("hw:cpu_realtime=", "hw:cpu_real_time=")]
    {
        let broken = flavor.replace(right, wrong);
        assert!(broken != flavor, "{flavor}");
        let output = novas_schema(&broken);
        assert!(!output.status.success() && said(&output).contains(&wrong[..10]), "{}", said(&output));
    }
}

/// tuned's own loader and plugins, without its daemon.
fn tuned(profile: &str) -> Output {
    let tuned = cache("tuned");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tautline")).unwrap();
    std::fs::write(folder.path().join("tautline/tuned.conf"), profile).unwrap();
    // The system's Python, for which the package is made.
    Command::new("python3")
        .env("PYTHONPATH", tuned.join("usr/lib/python3/dist-packages"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(judge("tuned_profile.py"))
        .arg(tuned.join("etc/tuned/tuned-main.conf"))
        .arg(folder.path())
        .arg("tautline")
        .output()
        .expect("python3: scripts/setup.sh test installs it")
}

#[test]
fn tuned_takes_the_profile() {
    for (name, mut host) in Host::all() {
        let all = Profile::ALL.into_iter();
        for profile in all.filter(|profile| name == "intel" || *profile == Profile::RealtimeHost) {
            host.wishes.profile = profile;
            let Ok(survey) = Survey::of(&host.tree, &host.wishes) else { continue };
            let text = Plan::of(&survey).tuned;
            let sections = text.matches("\n[").count();
            // A profile with nothing to change has only its own section.
            if sections > 1 {
                let output = tuned(&text);
                assert!(output.status.success(), "{name}: {text}{}", said(&output));
                assert!(said(&output).contains(&format!("{} sections", sections - 1)), "{}", said(&output));
            }
        }
    }
    let profile = Host::of("intel").plan().tuned;
    for (right, wrong) in [
        ("governor=", "gouvernor="),
        ("[sysctl]", "[systemctl]"),
        ("[main]", "[main"),
        ("cmdline_", "command_"),
    ] {
        let broken = profile.replace(right, wrong);
        assert!(broken != profile, "{profile}");
        let output = tuned(&broken);
        assert!(!output.status.success(), "{wrong}: {}", said(&output));
    }
}

#[test]
fn kubevirts_manifest_reads_back() {
    let text = export::kubevirt(&guest("2-5", 4096));
    let manifest = yaml(&text);
    assert_eq!(manifest["apiVersion"].as_str(), Some("kubevirt.io/v1"));
    assert_eq!(manifest["kind"].as_str(), Some("VirtualMachine"));
    assert_eq!(manifest["metadata"]["name"].as_str(), Some("realtime-guest"));
    let spec = &manifest["spec"]["template"]["spec"];
    assert_eq!(spec["nodeSelector"]["kubevirt.io/realtime"].as_str(), Some(""));
    let domain = &spec["domain"];
    let cpu = &domain["cpu"];
    assert_eq!((cpu["cores"].as_i64(), cpu["threads"].as_i64()), (Some(4), Some(1)));
    assert_eq!(cpu["realtime"]["mask"].as_str(), Some("1-3"));
    assert_eq!(cpu["dedicatedCpuPlacement"].as_bool(), Some(true));
    assert_eq!(cpu["features"][0]["policy"].as_str(), Some("require"));
    assert!(cpu["numa"]["guestMappingPassthrough"].is_hash());
    assert_eq!(domain["memory"]["guest"].as_str(), Some("4096Mi"));
    assert_eq!(domain["memory"]["hugepages"]["pageSize"].as_str(), Some("1Gi"));
    assert_eq!(domain["devices"]["autoattachMemBalloon"].as_bool(), Some(false));
    // A name that other YAML readers could take for a number, one vCPU, and memory in small pages.
    let list = |text: &str| text.parse::<CpuList>().unwrap();
    let odd = export::Guest::new("1e3", list("2"), list("0"), 514).unwrap();
    let manifest = yaml(&export::kubevirt(&odd));
    assert_eq!(manifest["metadata"]["name"].as_str(), Some("1e3"));
    let domain = &manifest["spec"]["template"]["spec"]["domain"];
    assert!(domain["cpu"]["realtime"].as_hash().is_some_and(|keys| keys.is_empty()));
    assert_eq!(domain["memory"]["hugepages"]["pageSize"].as_str(), Some("2Mi"));
}

fn yaml(text: &str) -> yaml_rust2::Yaml {
    yaml_rust2::YamlLoader::load_from_str(text).unwrap().remove(0)
}

#[test]
fn every_export_says_what_its_tool_cannot_express() {
    let guest = guest("2-5", 4096);
    for text in [
        export::libvirt(&guest),
        export::nova(&guest),
        export::kubevirt(&guest),
        export::qemu(&guest),
        export::systemd(&guest),
    ] {
        assert!(text.contains("cannot express"), "{text}");
    }
}

#[test]
fn a_guest_without_room_is_refused() {
    let list = |text: &str| text.parse::<CpuList>().unwrap();
    for (name, cpus, housekeeping) in
        [("Guest", "2", "0"), ("g", "", "0"), ("g", "2", "2"), ("g", "2", ""), ("../g", "2", "0")]
    {
        assert!(export::Guest::new(name, list(cpus), list(housekeeping), 512).is_err(), "{name} {cpus}");
    }
}
