//! The job that the arguments describe.
use std::num::NonZeroU32;
use std::time::Duration;

use port::spec::PortSpec;
use traffic::frames::{Access, Fields, SizeMix};
use traffic::path::Profile;
use traffic::rfc2544::{BurstJob, FULL_TRIAL, Job, Method};
use traffic::search::rfc2544::Step;
use traffic::search::{Fraction, Load, Verification};

use crate::cli;
use crate::exit::Usage;

/// RFC 2544 section 9.1, with frame check sequence; with a VLAN tag the shortest that holds it.
fn standard_sizes(fields: &Fields) -> Vec<String> {
    let shortest = fields.shortest().to_string();
    [&shortest, "128", "256", "512", "1024", "1280", "1518"].map(str::to_owned).to_vec()
}

/// RFC 2544 section 26.4, which RFC 9004 section 6.3 keeps as a recommendation.
const FULL_BURST_SEARCHES: NonZeroU32 = NonZeroU32::new(50).unwrap();
const QUICK_BURST_SEARCHES: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// RFC 9004 section 6.2.
const FULL_LONGEST_BURST: Duration = Duration::from_secs(30);

/// More than the rings hold at any rate of interest.
const LEAST_LONGEST_BURST: Duration = Duration::from_millis(100);

/// Reads all arguments, or says which one is wrong.
pub fn read(arguments: &cli::Rfc2544) -> anyhow::Result<Job> {
    let wrong = |option: &str, error: &dyn std::fmt::Display| Usage(format!("{option}: {error}"));
    let port = |option: &str, text: &str| -> Result<PortSpec, Usage> {
        match text.parse().map_err(|error| wrong(option, &error))? {
            PortSpec::Pcap(_) => {
                let why =
                    "a capture is no way to a device; write virtio-user:PATH, vhost-user:PATH or tap:NAME";
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
            false => Err(wrong("--sizes", &format!("with --vlan no frame is shorter than {shortest} bytes"))),
        }
    });
    let trial = arguments.trial.unwrap_or(if arguments.quick { Duration::from_secs(1) } else { FULL_TRIAL });
    let width = arguments.width.unwrap_or(if arguments.quick { 2.0 } else { 0.5 });
    let width = Fraction::from_percent(width).filter(|width| *width != Fraction::ZERO);
    let max_rate = arguments.max_rate.map(|fps| Load::new(fps).ok_or_else(|| Usage("--max-rate: 0".into())));
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
        method: method(arguments.search),
        trial,
        residual: Duration::from_millis(if full { 2000 } else { 200 }),
        width: width.ok_or_else(|| wrong("--width", &"write a percentage above 0 and below 100"))?,
        max_rate: max_rate.transpose()?,
        verification: Verification { max_trials: arguments.verification_trials, max_frames_lost: None },
        timeout: arguments.timeout,
    })
}

fn method(search: cli::Search) -> Method {
    match search {
        cli::Search::Rfc2544 => Method::Rfc2544,
        cli::Search::Tst009 => Method::Tst009,
        cli::Search::Mlr => Method::Mlr,
        cli::Search::Maximum => Method::Maximum,
    }
}
