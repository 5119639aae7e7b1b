//! Parses a gate file and checks each limit.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::limit::{Bound, Limit, Statistic};

/// A gate file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("gate file, line {line}: {what}; {remedy}")]
pub struct GateError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong in the line.
    pub what: String,
    /// What the user can do.
    pub remedy: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    limit: Vec<Spanned<Written>>,
}

/// A limit as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub metric: String,
    pub environment: Option<String>,
    pub statistic: Option<Statistic>,
    pub max_slowdown: Option<f64>,
    pub max: Option<f64>,
    pub min: Option<f64>,
    pub no_difference: Option<f64>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Limit>, GateError> {
    let file: File = toml::from_str(text).map_err(|error| GateError {
        line: line_of(text, error.span()),
        what: error.message().trim().replace('\n', ", "),
        remedy: "write [[limit]] tables with metric and one of max_slowdown, max, min, no_difference; \
                 environment and statistic (median, p99, p999, max, missed) if needed"
            .into(),
    })?;
    let fault = |span: Range<usize>, what: &str, remedy: &str| GateError {
        line: line_of(text, Some(span)),
        what: what.into(),
        remedy: remedy.into(),
    };
    if file.limit.is_empty() {
        return Err(fault(0..0, "it sets no limit", "write at least one [[limit]] table"));
    }
    let limits = file.limit.into_iter().map(|written| {
        let span = written.span();
        limit(written.into_inner()).map_err(|(what, remedy)| fault(span, what, remedy))
    });
    limits.collect()
}

const MORE_THAN_ONE: (&str, &str) = ("it limits more than one thing", "write a [[limit]] for each");

/// Checks a limit. The error says what is wrong with it and what the user can do.
pub(super) fn limit(written: Written) -> Result<Limit, (&'static str, &'static str)> {
    if written.metric.is_empty() {
        return Err(("the metric has no name", "give a metric's name, or a pattern such as \"os.*\""));
    }
    let statistic = written.statistic.unwrap_or(Statistic::Median);
    if let Some(significance) = written.no_difference {
        let alone = (written.max_slowdown, written.max, written.min) == (None, None, None);
        return match significance {
            _ if !alone => Err(MORE_THAN_ONE),
            _ if written.statistic.is_some() => Err(("a difference is of medians", "leave `statistic` out")),
            s if s > 0.0 && s < 1.0 => Ok(Limit {
                metric: written.metric,
                environment: written.environment,
                bound: Bound::NoDifference(significance),
            }),
            _ => Err(("no_difference is not between 0 and 1", "give a share of runs such as 0.01")),
        };
    }
    let bound = match (written.max_slowdown, written.max, written.min) {
        (Some(_), None, None) if written.statistic.is_some_and(|s| s != Statistic::Median) => {
            return Err(("a slowdown is of medians", "leave `statistic` out, or limit it with `max`"));
        }
        (Some(bound), None, None) if bound > 0.0 => Bound::MaxSlowdown(bound),
        (Some(_), None, None) => {
            return Err(("max_slowdown is not above 0", "give a factor such as 1.5 for half as much again"));
        }
        (None, Some(bound), None) => Bound::Max(statistic, bound),
        (None, None, Some(bound)) => Bound::Min(statistic, bound),
        (None, None, None) => {
            return Err(("it limits nothing", "add one of max_slowdown, max, min, no_difference"));
        }
        _ => return Err(MORE_THAN_ONE),
    };
    let (Bound::MaxSlowdown(figure)
    | Bound::Max(_, figure)
    | Bound::Min(_, figure)
    | Bound::NoDifference(figure)) = bound;
    if !figure.is_finite() {
        return Err(("the limit is not a finite number", "give a number in the metric's unit"));
    }
    Ok(Limit { metric: written.metric, environment: written.environment, bound })
}

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let start = span.map_or(0, |span| span.start).min(text.len());
    text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_reads_as_written() {
        let gate = parse(
            "# ours\n[[limit]]\nmetric = \"os.*\"\nenvironment = \"vm\"\nmax_slowdown = 2\n\n\
             [[limit]]\nmetric = \"wakeup.idle\"\nstatistic = \"p999\"\nmax = 50e3\n\
             [[limit]]\nmetric = \"*\"\nenvironment = \"host-2\"\nno_difference = 0.005\n",
        )
        .unwrap();
        let limit = |metric: &str, environment: Option<&str>, bound| Limit {
            metric: metric.into(),
            environment: environment.map(String::from),
            bound,
        };
        assert_eq!(
            gate,
            [
                limit("os.*", Some("vm"), Bound::MaxSlowdown(2.0)),
                limit("wakeup.idle", None, Bound::Max(Statistic::P999, 50_000.0)),
                limit("*", Some("host-2"), Bound::NoDifference(0.005)),
            ]
        );
    }

    #[test]
    fn an_error_names_its_line_what_is_wrong_and_what_to_do() {
        for (text, line, what) in [
            ("", 1, "no limit"),
            ("[[limit]]\nmetric = \"a\"\n", 1, "limits nothing"),
            ("\n[[limit]]\nmetric = \"a\"\nmax = 1\nmin = 1\n", 2, "more than one"),
            ("[[limit]]\nmetric = \"a\"\nmax = 1\n[[limit]]\nmetric = \"b\"\nmaximum = 2\n", 6, "maximum"),
            ("[[limit]]\nmetric = \"a\"\nmax = nan\n", 1, "finite"),
            ("[[limit]]\nmetric = \"a\"\nno_difference = 5\n", 1, "between 0 and 1"),
            ("[[limit]]\nmetric = \"a\"\nno_difference = 0.01\nmax = 1\n", 1, "more than one"),
            ("[[limit]]\nmetric = \"a\"\nmax_slowdown = 0\n", 1, "above 0"),
            ("[[limit]]\nmetric = \"a\"\nstatistic = \"p99\"\nmax_slowdown = 2\n", 1, "medians"),
            ("[[limit]]\nmetric = \"a\"\nmax = 1\nstatistic = \"p98\"\n", 4, "p98"),
            ("[[limit]]\nmax = 1\n", 1, "metric"),
            ("[[limit]\n", 1, ""),
            ("[[limit]]\nmetric = \"\"\nmax = 1\n", 1, "no name"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.what.contains(what) && !error.remedy.is_empty(), "{text:?}: {error}");
        }
    }
}
