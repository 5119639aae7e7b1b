//! What is to be done: everything decided before anything is plugged in.
use std::num::NonZeroU32;
use std::time::Duration;

use port::spec::PortSpec;
use traffic::frames::{Access, Fields, SizeMix};
use traffic::path::Profile;
use traffic::search::rfc2544::Step;
use traffic::search::{Fraction, Load, Verification};

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
    pub width: Fraction,
    pub max_rate: Option<Load>,
    pub verification: Verification,
    pub frame_loss: Option<Step>,
    pub back_to_back: Option<BurstJob>,
    pub cpu: Option<usize>,
}

/// How the longest burst is searched for.
#[derive(Clone, Copy, Debug)]
pub struct BurstJob {
    pub searches: NonZeroU32,
    /// What the longest burst takes.
    pub longest: Duration,
}

/// The label of a path with a TAP in it.
pub const SOFTWARE_TAP: &str = "software: TAP";

/// Undisturbed trials for the maximum.
pub const MAXIMUM_TRIALS: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// RFC 2544 section 9.1, with frame check sequence; with a VLAN tag the shortest that holds it.
fn standard_sizes(fields: &Fields) -> Vec<String> {
    let shortest = fields.shortest().to_string();
    [&shortest, "128", "256", "512", "1024", "1280", "1518"].map(str::to_owned).to_vec()
}

/// RFC 2544 section 24.
const FULL_TRIAL: Duration = Duration::from_secs(60);

/// RFC 2544 section 26.4, which RFC 9004 section 6.3 keeps as a recommendation.
const FULL_BURST_SEARCHES: NonZeroU32 = NonZeroU32::new(50).unwrap();
const QUICK_BURST_SEARCHES: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// RFC 9004 section 6.2.
const FULL_LONGEST_BURST: Duration = Duration::from_secs(30);

/// More than the rings hold at any rate of interest.
const LEAST_LONGEST_BURST: Duration = Duration::from_millis(100);

impl Job {
    /// Understands all of it, or says what is wrong.
    pub fn read(arguments: &cli::Rfc2544) -> anyhow::Result<Self> {
        let wrong = |option: &str, error: &dyn std::fmt::Display| Usage(format!("{option}: {error}"));
        let port = |option: &str, text: &str| -> Result<PortSpec, Usage> {
            match text.parse().map_err(|error| wrong(option, &error))? {
                PortSpec::Pcap(_) => {
                    let why = "a capture is no way to a device; write virtio-user:PATH, vhost-user:PATH or tap:NAME";
                    Err(wrong(option, &why))
                }
                spec => Ok(spec),
            }
        };
        let mac = |option: &str, text: &str| text.parse().map_err(|error| wrong(option, &error));
        let fields = Fields {
            source: mac("--source-mac", &arguments.source_mac)?,
            destination: mac("--destination-mac", &arguments.destination_mac)?,
            vlan: arguments.vlan,
            ..Fields::default()
        };
        let sizes = match arguments.sizes.is_empty() {
            true => standard_sizes(&fields),
            false => arguments.sizes.clone(),
        };
        let mixes = sizes.iter().map(|size| -> Result<SizeMix, Usage> {
            let mix: SizeMix = size.parse().map_err(|error| wrong("--sizes", &error))?;
            let shortest = fields.shortest();
            match mix.period().iter().all(|size| *size >= shortest) {
                true => Ok(mix),
                false => {
                    Err(wrong("--sizes", &format!("with --vlan no frame is shorter than {shortest} bytes")))
                }
            }
        });
        let trial =
            arguments.trial.unwrap_or(if arguments.quick { Duration::from_secs(1) } else { FULL_TRIAL });
        let width = arguments.width.unwrap_or(if arguments.quick { 2.0 } else { 0.5 });
        let width = Fraction::from_percent(width).filter(|width| *width != Fraction::ZERO);
        let max_rate =
            arguments.max_rate.map(|fps| Load::new(fps).ok_or_else(|| Usage("--max-rate: 0".into())));
        let full = trial >= FULL_TRIAL;
        let back_to_back = arguments.back_to_back.then(|| BurstJob {
            searches: match arguments.bursts.and_then(NonZeroU32::new) {
                Some(searches) => searches,
                None if full => FULL_BURST_SEARCHES,
                None => QUICK_BURST_SEARCHES,
            },
            longest: if full { FULL_LONGEST_BURST } else { (trial / 10).max(LEAST_LONGEST_BURST) },
        });
        if arguments.back_to_back && arguments.search == cli::Search::Maximum {
            let why = "it needs a throughput to be held against; choose another --search than maximum";
            return Err(wrong("--back-to-back", &why).into());
        }
        let cpus = arguments.cpu.as_deref().map(|list| cpu_list::read("--cpu", Some(list))).transpose()?;
        Ok(Job {
            from: port("--from", &arguments.from)?,
            to: arguments.to.as_deref().map(|text| port("--to", text)).transpose()?,
            frame_loss: arguments.frame_loss.then(|| Step::from_percent(arguments.loss_step)).flatten(),
            back_to_back,
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
            residual: Duration::from_millis(if full { 2000 } else { 200 }),
            width: width.ok_or_else(|| wrong("--width", &"write a percentage above 0 and below 100"))?,
            max_rate: max_rate.transpose()?,
            verification: Verification { max_trials: arguments.verification_trials, max_frames_lost: None },
            cpu: cpus.and_then(|cpus| cpus.first().copied()),
        })
    }

    /// What stands beside every figure: through a TAP frames go one system call each, and what forwards them
    /// is this machine's kernel.
    pub fn labels(&self) -> Vec<String> {
        let mut ports = std::iter::once(&self.from).chain(&self.to);
        let tap = ports.any(|spec| matches!(spec, PortSpec::Tap(_)));
        tap.then(|| SOFTWARE_TAP.to_owned()).into_iter().collect()
    }

    /// How long each trial for the maximum is: all together as long as one for latencies, but each long
    /// enough for a device that was asleep.
    pub fn maximum_trial(&self) -> Duration {
        (self.latency_trial() / MAXIMUM_TRIALS.get()).max(Duration::from_millis(100))
    }

    /// How long latencies are watched at each load.
    pub fn latency_trial(&self) -> Duration {
        self.trial.min(Duration::from_secs(1))
    }

    /// Whether trials are shorter than RFC 2544 asks for.
    pub fn is_quick(&self) -> bool {
        self.trial < FULL_TRIAL
    }
}
