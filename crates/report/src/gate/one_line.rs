//! A limit in one line for a command line. It has the same rules as a table of a gate file.

use std::str::FromStr;

use super::limit::{Limit, Statistic};
use super::parse::{Written, limit};

/// What is wrong with a limit in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}; {remedy} (METRIC[@ENVIRONMENT][:STATISTIC]<=VALUE, or >=; STATISTIC is median, p99, p999, max, missed \
     or slowdown)"
)]
pub struct NoLimit {
    what: String,
    remedy: String,
}

impl FromStr for Limit {
    type Err = NoLimit;

    fn from_str(line: &str) -> Result<Self, NoLimit> {
        let fault = |what: &str, remedy: &str| NoLimit { what: what.into(), remedy: remedy.into() };
        let at_most = line.split_once("<=").map(|parts| (parts, true));
        let split = at_most.or_else(|| line.split_once(">=").map(|parts| (parts, false)));
        let ((what, value), at_most) = split
            .ok_or_else(|| fault("it has neither <= nor >=", "write one of them, in quotes for the shell"))?;
        let value = value.trim().parse::<f64>();
        let value = value.map_err(|_| fault("the limit is no number", "give one in the metric's unit"))?;
        let (place, statistic) = match what.trim().rsplit_once(':') {
            Some((place, statistic)) => (place, Some(statistic)),
            None => (what.trim(), None),
        };
        let (metric, environment) = match place.split_once('@') {
            Some((metric, environment)) => (metric, Some(environment.into())),
            None => (place, None),
        };
        let slowdown = statistic == Some("slowdown");
        if slowdown && !at_most {
            return Err(fault("a slowdown has no lower limit", "write <="));
        }
        let statistic = match statistic.filter(|_| !slowdown) {
            Some(name) => Some(Statistic::named(name).ok_or_else(|| {
                fault(&format!("there is no statistic '{name}'"), "name one that there is")
            })?),
            None => None,
        };
        limit(Written {
            metric: metric.into(),
            environment,
            statistic,
            max_slowdown: Some(value).filter(|_| slowdown),
            max: Some(value).filter(|_| at_most && !slowdown),
            min: Some(value).filter(|_| !at_most),
            no_difference: None,
        })
        .map_err(|(what, remedy)| fault(what, remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;

    #[test]
    fn a_line_says_what_a_table_says() {
        for (line, table) in [
            ("throughput.64>=1e6", "metric = \"throughput.64\"\nmin = 1e6"),
            ("latency.50.64:p99 <= 100000", "metric = \"latency.50.64\"\nstatistic = \"p99\"\nmax = 100000"),
            (
                "os.*@container:slowdown<=1.5",
                "metric = \"os.*\"\nenvironment = \"container\"\nmax_slowdown = 1.5",
            ),
            ("wakeup.idle@vm<=5", "metric = \"wakeup.idle\"\nenvironment = \"vm\"\nmax = 5"),
        ] {
            let gate = Gate::parse(&format!("[[limit]]\n{table}")).unwrap();
            assert_eq!([line.parse::<Limit>().unwrap()], gate.limits(), "{line}");
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_told_why() {
        for (line, why) in [
            ("throughput.64=1", "neither"),
            ("throughput.64<=fast", "no number"),
            ("throughput.64<=nan", "finite"),
            ("<=1", "no name"),
            ("a:p98<=1", "p98"),
            ("a:slowdown>=1", "lower limit"),
            ("a:slowdown<=0", "above 0"),
        ] {
            let error = line.parse::<Limit>().unwrap_err();
            assert!(error.what.contains(why) && !error.remedy.is_empty(), "{line}: {error}");
        }
    }
}
