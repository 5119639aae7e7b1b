//! What is to be done: everything decided before anything is plugged in.
use std::num::NonZeroU32;
use std::time::Duration;

use port::spec::PortSpec;
use traffic::frames::{Access, Fields, SizeMix};
use traffic::path::Profile;
use traffic::search::{Load, Share, Verification};

use crate::exit::Usage;
use crate::{cli, cpu_list};

/// One run.
pub struct Job {
    pub from: PortSpec,
    pub to: Option<PortSpec>,
    pub profile: Profile,
    pub mixes: Vec<SizeMix>,
    pub search: cli::Search,
    pub trial: Duration,
    /// Before each trial's end, for frames that are late.
    pub residual: Duration,
    pub width: Share,
    pub max_rate: Option<Load>,
    pub verification: Verification,
    pub cpu: Option<usize>,
}

/// RFC 2544 section 9.1.
const SIZES: &str = "64,128,256,512,1024,1280,1518";

/// RFC 2544 section 24.
const FULL_TRIAL_S: f64 = 60.0;

impl Job {
    /// Understands all of it, or says what is wrong.
    pub fn read(arguments: &cli::Rfc2544) -> anyhow::Result<Self> {
        let wrong = |option: &str, error: &dyn std::fmt::Display| Usage(format!("{option}: {error}"));
        let port = |option: &str, text: &str| text.parse().map_err(|error| wrong(option, &error));
        let mac = |option: &str, text: &str| text.parse().map_err(|error| wrong(option, &error));
        let fields = Fields {
            source: mac("--source-mac", &arguments.source_mac)?,
            destination: mac("--destination-mac", &arguments.destination_mac)?,
            vlan: arguments.vlan,
            ..Fields::default()
        };
        let sizes = match arguments.sizes.is_empty() {
            true => SIZES.split(',').map(str::to_owned).collect(),
            false => arguments.sizes.clone(),
        };
        let mixes = sizes.iter().map(|size| size.parse().map_err(|error| wrong("--sizes", &error)));
        let trial_s = arguments.trial_s.unwrap_or(if arguments.quick { 1.0 } else { FULL_TRIAL_S });
        let trial = Duration::try_from_secs_f64(trial_s).ok().filter(|trial| trial.as_millis() >= 10);
        let trial = trial.ok_or_else(|| wrong("--trial-s", &"write seconds, at least 0.01"))?;
        let width = arguments.width.unwrap_or(if arguments.quick { 2.0 } else { 0.5 });
        let width = Share::from_percent(width).filter(|width| *width != Share::ZERO);
        let max_rate =
            arguments.max_rate.map(|fps| Load::new(fps).ok_or_else(|| Usage("--max-rate: 0".into())));
        let cpus = arguments.cpu.as_deref().map(|list| cpu_list::read("--cpu", Some(list))).transpose()?;
        Ok(Job {
            from: port("--from", &arguments.from)?,
            to: arguments.to.as_deref().map(|text| port("--to", text)).transpose()?,
            profile: Profile {
                fields,
                flows: arguments.flows,
                access: match arguments.access {
                    cli::Access::Header => Access::Header,
                    cli::Access::Payload => Access::Payload,
                },
                bidirectional: arguments.bidirectional,
            },
            mixes: mixes.collect::<Result<_, _>>()?,
            search: arguments.search,
            trial,
            residual: Duration::from_millis(if trial_s < FULL_TRIAL_S { 200 } else { 2000 }),
            width: width.ok_or_else(|| wrong("--width", &"write a percentage above 0 and below 100"))?,
            max_rate: max_rate.transpose()?,
            verification: Verification {
                max_trials: NonZeroU32::new(2).unwrap_or(NonZeroU32::MIN),
                max_frames_lost: None,
            },
            cpu: cpus.and_then(|cpus| cpus.first().copied()),
        })
    }

    /// Whether trials are shorter than RFC 2544 asks for.
    pub fn is_quick(&self) -> bool {
        self.trial.as_secs_f64() < FULL_TRIAL_S
    }
}
