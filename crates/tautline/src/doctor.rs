//! `tautline doctor`: what this machine can do. Capabilities that need an environment are proved here by starting
//! one. The others are proved by probes, each in its own process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use capability::{Capability, State};
use environment::container::Settings as ContainerSettings;
use environment::vm::{Accelerator, Settings as VmSettings};
use environment::{Agent, Environment, Janitor, Spec, Start};
use linux::interrupt::{self, Interrupted};
use linux::progress::Progress;
use measure::Failure;
use serde::Serialize;

use crate::cli;
use crate::exit::{Done, Usage};
use crate::output::{self, Sink};

const PROBE_LIMIT: Duration = Duration::from_secs(10);
const START_LIMIT: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(arguments: &cli::Doctor) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    for name in &arguments.require {
        if !known().any(|known| known == name) {
            let known: Vec<&str> = known().collect();
            return Err(Usage(format!(
                "--require {name}: no capability has this name; there are {}",
                known.join(", ")
            ))
            .into());
        }
    }
    output::catch_interrupts()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let progress = output::progress();
    let mut found = started(&binary, &progress)?;
    for name in capability::NAMES {
        if interrupt::is_set() {
            break;
        }
        progress.doing(name);
        found.push(capability::run_one(&binary, name, PROBE_LIMIT));
    }
    progress.finish();
    if interrupt::is_set() {
        return Err(Interrupted.into());
    }
    let document = Document { schema: "tautline-doctor/1", capabilities: &found };
    sink.put(
        |width, color| capability::render(&found, width, color),
        || Ok(serde_json::to_string_pretty(&document)?),
    )?;
    let lacking = |name: &&String| !found.iter().any(|one| one.id == **name && one.state == State::Proven);
    let lacking: Vec<&String> = arguments.require.iter().filter(lacking).collect();
    for name in &lacking {
        let remedy = found.iter().find(|one| one.id == **name).map_or("", |one| one.remedy.as_str());
        let fix = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
        eprintln!("tautline: {name} is required and not proven here{fix}");
    }
    Ok(if lacking.is_empty() { Done::Whole } else { Done::ThresholdExceeded })
}

/// What `--require` may name.
fn known() -> impl Iterator<Item = &'static str> {
    lines().into_iter().map(|line| line.id).chain(capability::NAMES)
}

/// The results as JSON.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    capabilities: &'a [Capability],
}

/// A line that is proved by starting an environment.
struct Line {
    id: &'static str,
    title: &'static str,
    enables: &'static str,
    specs: Vec<Spec>,
}

fn lines() -> Vec<Line> {
    let vm = |accelerator| Spec::Vm(VmSettings { accelerator: Some(accelerator), ..VmSettings::default() });
    vec![
        Line {
            id: "kvm",
            title: "KVM",
            enables: "VM figures that say how fast it is; without it the CPU is emulated and every figure marked",
            specs: vec![vm(Accelerator::Kvm)],
        },
        Line { id: "qemu", title: "QEMU", enables: "the VM environment", specs: vec![vm(Accelerator::Tcg)] },
        Line {
            id: "container",
            title: "OCI runtime",
            enables: "the container environment",
            specs: vec![Spec::Container(ContainerSettings::default())],
        },
    ]
}

fn started(binary: &Path, progress: &Progress) -> anyhow::Result<Vec<Capability>> {
    let agent =
        Agent { binary: binary.to_owned(), arguments: vec![workload::agent::ARGUMENT.into()], files: vec![] };
    let janitor = Arc::new(Janitor::start(binary)?);
    let cpus = output::usable_cpus()?;
    let start = Start { agent: &agent, cpus: &cpus, limit: START_LIMIT, janitor: &janitor };
    let mut found = Vec::new();
    for line in lines() {
        if interrupt::is_set() {
            break;
        }
        progress.doing(line.title);
        for spec in &line.specs {
            let proof = spec.prove(&start).map(|environment| detail(&environment));
            found.push(match proof {
                Ok(detail) => Capability::proven(line.id, line.title, detail, line.enables),
                Err(failure) => {
                    Capability::missing(line.id, line.title, name_the_kvm(spec, failure), line.enables)
                }
            });
        }
    }
    Ok(found)
}

fn detail(environment: &dyn Environment) -> String {
    let facts = environment.facts().into_iter().map(|(key, value)| format!("{key} {value}"));
    let facts: Vec<String> = [environment.accelerator().to_owned()].into_iter().chain(facts).collect();
    format!("started, and the agent in it answered: {}", facts.join(", "))
}

/// A `/dev/kvm` that is there and runs no stock kernel: which kind of KVM it is says why.
fn name_the_kvm(spec: &Spec, mut failure: Failure) -> Failure {
    let Spec::Vm(VmSettings { accelerator: Some(Accelerator::Kvm), .. }) = spec else { return failure };
    if Path::new("/dev/kvm").exists() {
        let kind = environment::vm::kvm_name();
        failure.answer =
            format!("/dev/kvm is there ({kind}), but no stock kernel came up: {}", failure.answer);
        failure.remedy =
            "nothing to do on a host whose KVM cannot run stock guests; QEMU's emulation is used".into();
    }
    failure
}
