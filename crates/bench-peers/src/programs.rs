//! What is measured against what: versions, and how each was built as far as that can be had.
use std::path::{Path, PathBuf};
use std::process::Command;

use peers::{ovs, testpmd};
use serde::Serialize;
use serde_json::Value;

use crate::order::Setup;

/// What a program does in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Tautline,
    Testpmd,
    TestpmdDriver,
    Ovs,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Tautline => "tautline: switch and generator",
            Role::Testpmd => "testpmd as device (net_vhost)",
            Role::TestpmdDriver => "testpmd as driver (net_virtio_user)",
            Role::Ovs => "OVS-DPDK",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Program {
    pub role: Role,
    /// As it says it.
    pub version: String,
    pub build: String,
    /// Only for the results file: where it lies is nobody else's business.
    pub file: PathBuf,
}

/// All programs that a run starts. One that does not answer is an error where the user named it, and otherwise none: the
/// run will say why.
pub fn all(tautline: &Path, setup: &Setup, ovs: bool) -> anyhow::Result<Vec<Program>> {
    let own = || {
        let said = Command::new(tautline).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        let program =
            Program { role: Role::Tautline, version, build: "release".to_owned(), file: tautline.to_owned() };
        (!program.version.is_empty()).then_some(program)
    };
    let mut programs: Vec<Program> = own().into_iter().collect();
    for (role, named) in [(Role::Testpmd, &setup.testpmd), (Role::TestpmdDriver, &setup.testpmd_driver)] {
        match testpmd::version(named.as_deref()) {
            Ok(testpmd::Version { program: file, version, linkage }) => {
                let build = format!("{linkage} libraries, {}", build(&file));
                programs.push(Program { role, version, build, file });
            }
            Err(error) if named.is_some() => return Err(error.into()),
            Err(_) => {}
        }
    }
    match ovs.then(|| ovs::version(setup.ovs.as_deref())) {
        Some(Ok((file, version))) => {
            programs.push(Program { role: Role::Ovs, version, build: build(&file), file });
        }
        Some(Err(error)) if setup.ovs.is_some() => return Err(error.into()),
        _ => {}
    }
    Ok(programs)
}

/// How a file was built: what meson or configure left in a folder above it, or the package that it came in.
fn build(file: &Path) -> String {
    let above = || file.ancestors().skip(1).take(4);
    let read = |name: &str| above().find_map(|folder| std::fs::read_to_string(folder.join(name)).ok());
    let meson = || meson(&read("meson-info/intro-buildoptions.json")?);
    let configure =
        || Some(read("config.log")?.lines().find_map(|line| line.strip_prefix("  $ "))?.to_owned());
    let package = || {
        let said = Command::new("dpkg-query").arg("-S").arg(file).output().ok()?;
        let package = String::from_utf8(said.stdout)
            .ok()?
            .split(": ")
            .next()
            .filter(|name| !name.is_empty())?
            .to_owned();
        let said =
            Command::new("dpkg-query").args(["-W", "-f=${Package} ${Version}", &package]).output().ok()?;
        Some(format!("package {}", String::from_utf8(said.stdout).ok()?))
    };
    meson().or_else(configure).or_else(package).unwrap_or_else(|| "build options unknown".to_owned())
}

/// The options of meson that change what a packet costs.
fn meson(text: &str) -> Option<String> {
    const NAMES: [&str; 6] =
        ["buildtype", "optimization", "platform", "cpu_instruction_set", "b_lto", "c_args"];
    let options: Vec<Value> = serde_json::from_str(text).ok()?;
    let word = |option: &Value| {
        let name = option["name"].as_str().filter(|name| NAMES.contains(name))?;
        let value = match &option["value"] {
            Value::String(word) => word.clone(),
            Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            value => value.to_string(),
        };
        (!value.is_empty()).then(|| format!("{name}={value}"))
    };
    let words: Vec<String> = options.iter().filter_map(word).collect();
    (!words.is_empty()).then(|| format!("meson {}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_options_are_found_above_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("build/app/dpdk-testpmd");
        assert_eq!(build(&program), "build options unknown");
        std::fs::create_dir_all(folder.path().join("build/meson-info")).unwrap();
        let options = r#"[{"name": "buildtype", "value": "release"}, {"name": "b_lto", "value": false},
            {"name": "tests", "value": true}, {"name": "c_args", "value": []}, {"name": "platform", "value": "native"}]"#;
        std::fs::write(folder.path().join("build/meson-info/intro-buildoptions.json"), options).unwrap();
        assert_eq!(build(&program), "meson buildtype=release b_lto=false platform=native");
        std::fs::write(folder.path().join("config.log"), "It was\n\n  $ ./configure --with-dpdk=static\n")
            .unwrap();
        assert_eq!(build(&folder.path().join("vswitchd/ovs-vswitchd")), "./configure --with-dpdk=static");
    }
}
