//! `tautline kvm costs`.

use std::fmt::Write;

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use kvm::costs::{self, Cost, Costs, SCHEMA, Settings};
use measure::host_facts::HostFacts;

use crate::cli::KvmCosts;
use crate::cpu_list;
use crate::exit::{Done, Usage};
use crate::output::{self, Sink};

/// Runs the command.
pub fn run(arguments: &KvmCosts) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let settings = Settings { samples: arguments.samples as usize, cpus: cpus(arguments)? };

    let started = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?;
    let progress = output::progress();
    progress.doing("starting a guest");
    let accelerator = environment::vm::kvm_name();
    let (prepared, rows) = costs::measure(&settings, |row| {
        if row.id == costs::ROWS[0].id {
            progress.count(costs::ROWS.len() as u64);
        } else {
            progress.step();
        }
        progress.doing(row.title);
    })
    .with_context(|| format!("/dev/kvm ({accelerator})"))?;
    progress.finish();
    let costs = Costs {
        schema: SCHEMA.into(),
        tautline: env!("CARGO_PKG_VERSION").into(),
        started,
        host: HostFacts::gather(),
        accelerator,
        emulated: prepared.emulated,
        settings: costs::kvm_settings(),
        tsc_khz: prepared.tsc_khz,
        alignment: prepared.alignment,
        rows,
    };
    sink.put(|width, _| text(&costs, width), || Ok(serde_json::to_string(&costs)?))?;
    Ok(Done::Whole)
}

/// Those that were named, or the first two. One that works for both sides would measure its scheduler.
fn cpus(arguments: &KvmCosts) -> anyhow::Result<[usize; 2]> {
    let cpus = cpu_list::read("--cpus", arguments.cpus.as_deref())?;
    match cpus[..] {
        [first, second, ..] if arguments.cpus.is_none() || cpus.len() == 2 => Ok([first, second]),
        _ => Err(Usage(format!("two CPUs are needed, not {}; name them with --cpus", cpus.len())).into()),
    }
}

/// What a person reads.
fn text(costs: &Costs, width: usize) -> String {
    let mut text = String::new();
    let host = &costs.host;
    let _ = writeln!(text, "{}, {}; kernel {}", costs.accelerator, host.cpu_model, host.kernel);
    let settings = costs.settings.iter().map(|(name, value)| format!("{name}={value}"));
    let _ = writeln!(text, "{}", settings.collect::<Vec<_>>().join(" "));
    if costs.emulated {
        let _ =
            writeln!(text, "Emulated CPU: these figures show that each path works, never how fast it is.");
    }
    let _ = match &costs.alignment {
        Some(alignment) => writeln!(
            text,
            "Clocks of host and guest: off by at most {} ns ({} exchanges); no effect preceded its cause, or its row \
             says so.",
            costs::results::nanoseconds(alignment.error_bound(), costs.tsc_khz),
            alignment.exchanges,
        ),
        None => {
            writeln!(text, "Clocks of host and guest drift against each other; rows across both are missing.")
        }
    };
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.min(usize::from(u16::MAX)) as u16);
    table.set_header(["ns", "p50", "p99", "max", "ticks", "n", "vmexit", "ARM study"]);
    table.add_rows(costs.rows.iter().filter_map(row));
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "\n{table}");
    for cost in &costs.rows {
        if let Some(failure) = &cost.failure {
            let _ = writeln!(text, "{}: {failure}", cost.id);
        }
    }
    text.push_str(
        "ticks: the median in ticks of the TSC. vmexit: the test of kvm-unit-tests that times the same. ARM study: the closest row of \"ARM Virtualization: \
         Performance and Architectural Implications\". Each row includes its two time stamps, the first row.\n",
    );
    text
}

fn row(cost: &Cost) -> Option<[String; 8]> {
    let latency = cost.latency.as_ref()?;
    let quantile = |quantile| latency.quantile_ns(quantile).to_string();
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    Some([
        cost.id.clone(),
        quantile(0.5),
        quantile(0.99),
        latency.max_ns().to_string(),
        cost.median_ticks.unwrap_or(0).to_string(),
        latency.count().to_string(),
        name(&cost.vmexit),
        name(&cost.arm),
    ])
}
