//! `export`.

use std::time::Duration;

use clap::ValueEnum;
use host::{CpuList, HostTree, Machine, Profile, Survey, Wishes, WrittenCpus, export};
use serde::Serialize;

use super::subject;
use crate::cli::Format;
use crate::cli::host::{Export, Target};
use crate::exit::{Done, Usage};

/// An export as JSON.
#[derive(Serialize)]
struct Exported<'a> {
    schema: &'static str,
    to: String,
    name: &'a str,
    isolated: &'a CpuList,
    housekeeping: &'a CpuList,
    guest_memory_mib: u64,
    text: String,
}

/// Writes the profile in another tool's form.
pub fn run(arguments: &Export) -> anyhow::Result<Done> {
    let tree = HostTree::live();
    let machine = Machine::of(&tree, &CpuList::default());
    let cpus = |option: &str, list: &WrittenCpus| {
        machine.named(list).map_err(|error| Usage(format!("{option} {list}: {error}")))
    };
    let housekeeping = match &arguments.housekeeping {
        Some(list) => cpus("--housekeeping", list)?,
        None => of_this_host(&tree, &arguments.isolate)?,
    };
    let isolate = cpus("--isolate", &arguments.isolate)?;
    let guest =
        export::Guest::new(&arguments.name, isolate.clone(), housekeeping.clone(), arguments.guest_memory)?;
    let text = match arguments.to {
        Target::Libvirt => export::libvirt(&guest),
        Target::Nova => export::nova(&guest),
        Target::Kubevirt => export::kubevirt(&guest),
        Target::Qemu => export::qemu(&guest),
        Target::Systemd => export::systemd(&guest),
    };
    let text = match arguments.format {
        Format::Text => text,
        Format::Json => {
            let to = arguments
                .to
                .to_possible_value()
                .map_or_else(String::new, |value| value.get_name().to_owned());
            let exported = Exported {
                schema: "tautline-host-export/1",
                to,
                name: &arguments.name,
                isolated: &isolate,
                housekeeping: &housekeeping,
                guest_memory_mib: arguments.guest_memory,
                text,
            };
            serde_json::to_string_pretty(&exported)? + "\n"
        }
    };
    subject::write(&arguments.output, &text)?;
    Ok(Done::Whole)
}

fn of_this_host(tree: &HostTree, isolate: &WrittenCpus) -> anyhow::Result<CpuList> {
    let wishes = Wishes {
        profile: Profile::RealtimeHost,
        isolate: Some(isolate.clone()),
        guest_memory_mib: None,
        timer_migration: 0,
        watch: Duration::ZERO,
    };
    Ok(Survey::of(tree, &wishes)?.housekeeping())
}
