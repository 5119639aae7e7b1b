//! The kernel's command line in the files of each boot loader.

use serde::{Deserialize, Serialize};

use super::command_line::CommandLine;
use super::edit::Edit;
use super::grub;
use super::survey::{Processor, Survey};

/// The change of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootLine {
    /// Parameters to add, or to replace parameters with the same name.
    pub parameters: Vec<String>,
    /// The whole line, without the parameters that the boot loader itself adds.
    pub line: String,
    /// A warning if the line or a value is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The changes for each boot loader.
    pub loaders: Vec<Loader>,
}

/// The changes for one boot loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loader {
    /// Its name.
    pub name: String,
    /// Whether the boot loader's files exist on this host.
    pub found: bool,
    /// The lines to write to the boot loader's files.
    pub edits: Vec<Edit>,
    /// The part of the boot loader's files that could not be parsed, if there is one: the user must then add the
    /// parameters by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_understood: Option<String>,
    /// The command to run afterwards.
    pub then: String,
}

/// GRUB's environment block holds 1024 bytes: an expanded list of 112 CPUs has overflowed it.
const GRUB_ENVIRONMENT: usize = 1024;

/// The change that adds these parameters to the command line; `None` if there are no parameters.
pub fn of(survey: &Survey, parameters: &[String]) -> Option<BootLine> {
    if parameters.is_empty() {
        return None;
    }
    let now = survey.command_line.clone().unwrap_or_default().without_boot_loaders();
    let line = now.with(parameters).to_string();
    Some(BootLine {
        parameters: parameters.to_vec(),
        warning: warning(survey, &line),
        loaders: vec![grub(survey, parameters), systemd_boot(survey, &line), extlinux(survey, parameters)],
        line,
    })
}

fn warning(survey: &Survey, line: &str) -> Option<String> {
    // arch/*/include/uapi/asm/setup.h: COMMAND_LINE_SIZE.
    let most = if survey.processor == Processor::Other { 1024 } else { 2048 };
    if line.len() >= most {
        return Some(format!(
            "the line has {} bytes; this kernel reads {most}: drop what is not needed",
            line.len()
        ));
    }
    (line.len() >= GRUB_ENVIRONMENT).then(|| {
        format!(
            "the line has {} bytes; where GRUB keeps it in grubenv (Fedora, RHEL), that block holds {GRUB_ENVIRONMENT}: \
             use `grubby --update-kernel=ALL --args=…`, which writes the boot entries",
            line.len()
        )
    })
}

fn grub(survey: &Survey, parameters: &[String]) -> Loader {
    let edits = grub::edits(survey.tree, parameters);
    Loader {
        name: "GRUB".into(),
        found: grub::found(survey.tree),
        not_understood: edits.as_ref().err().cloned(),
        edits: edits.unwrap_or_default(),
        then: if survey.tree.has("/etc/redhat-release") {
            format!("grubby --update-kernel=ALL --args=\"{}\"", parameters.join(" "))
        } else {
            "update-grub   (SUSE: grub2-mkconfig -o /boot/grub2/grub.cfg)".into()
        },
    }
}

fn systemd_boot(survey: &Survey, line: &str) -> Loader {
    Loader {
        name: "systemd-boot".into(),
        found: ["/boot/loader/loader.conf", "/efi/loader/loader.conf", "/boot/efi/loader/loader.conf"]
            .iter()
            .any(|path| survey.tree.has(path)),
        edits: vec![Edit::new("/etc/kernel/cmdline", line.into())],
        not_understood: None,
        then: "kernel-install add \"$(uname -r)\" \"/lib/modules/$(uname -r)/vmlinuz\"".into(),
    }
}

fn extlinux(survey: &Survey, parameters: &[String]) -> Loader {
    const FILE: &str = "/boot/extlinux/extlinux.conf";
    let text = survey.tree.read(FILE);
    let now = text.as_deref().ok().and_then(|text| {
        text.lines().find_map(|line| {
            let (key, value) = line.trim().split_once(char::is_whitespace)?;
            key.eq_ignore_ascii_case("append").then(|| value.trim())
        })
    });
    let base = match now {
        Some(line) => CommandLine::parse(line),
        None => survey.command_line.clone().unwrap_or_default().without_boot_loaders(),
    };
    Loader {
        name: "extlinux".into(),
        found: text.is_ok(),
        edits: vec![Edit::new(FILE, format!("append {}", base.with(parameters)))],
        not_understood: None,
        then: "nothing; where u-boot-menu writes the file, put the parameters into U_BOOT_PARAMETERS of \
               /etc/default/u-boot and call u-boot-update"
            .into(),
    }
}
