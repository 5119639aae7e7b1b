//! Finds the versions of the peers' programs, and the options of their builds if they are known.
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, ovs, testpmd};

/// A program, its version and its build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The purpose of the program.
    pub name: String,
    /// The version as the program prints it.
    pub version: String,
    /// The options of the build, or the package that contains the program.
    pub build: String,
    /// The path of the program.
    pub file: PathBuf,
}

impl Program {
    /// Describes this build of testpmd, or the installed one.
    ///
    /// # Errors
    /// The causes of [`testpmd::version`].
    pub fn testpmd(name: &str, program: Option<&Path>) -> Result<Self, Error> {
        let testpmd::Version { program: file, version, linkage } = testpmd::version(program)?;
        let build = format!("{linkage} libraries, {}", build(&file));
        Ok(Program { name: name.to_owned(), version, build, file })
    }

    /// Describes the build of Open vSwitch with DPDK in this folder, or the installed one.
    ///
    /// # Errors
    /// The causes of [`ovs::version`].
    pub fn ovs(folder: Option<&Path>) -> Result<Self, Error> {
        let (file, version) = ovs::version(folder)?;
        Ok(Program { name: "OVS-DPDK".to_owned(), version, build: build(&file), file })
    }

    /// Describes a program of this project, which is built for release.
    ///
    /// # Errors
    /// The program cannot be started. If the program fails, the version is empty.
    pub fn own(name: &str, file: &Path) -> Result<Self, Error> {
        let said = Command::new(file).arg("--version").output();
        let said = said.map_err(Error::system(format!("running {}", file.display())))?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        Ok(Program { name: name.to_owned(), version, build: "release".to_owned(), file: file.to_owned() })
    }
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
