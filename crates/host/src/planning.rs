//! Makes a plan from the results of an audit.

use super::boot_line;
use super::plan::{Plan, PlannedRule, boot_parameters};
use super::rules::{self, State, Takes};
use super::survey::Survey;
use super::tuned;

impl Plan {
    /// Makes a plan.
    pub fn of(survey: &Survey) -> Self {
        let profile = survey.wishes.profile;
        let mut planned = Vec::new();
        let mut unknown = Vec::new();
        for rule in rules::all().filter(|rule| rule.profiles.contains(&profile)) {
            let verdict = rule.look(survey);
            match verdict.state {
                State::Fail => planned.push(PlannedRule {
                    rule: rule.id.into(),
                    title: rule.title.into(),
                    found: verdict.found,
                    risk: rule.risk.into(),
                    hazard: verdict.hazard,
                    changes: verdict.changes,
                }),
                State::Unknown if rule.takes != Takes::Nothing => {
                    unknown.push((rule.id.to_owned(), verdict.found))
                }
                _ => {}
            }
        }
        let boot = boot_line::of(survey, &boot_parameters(&planned));
        let mut plan = Plan {
            schema: "tautline-host-plan/1".into(),
            profile,
            isolated: survey.isolated.clone(),
            isolated_offline: survey.isolated_offline.clone(),
            housekeeping: survey.housekeeping(),
            rules: planned,
            unknown,
            boot,
            tuned: String::new(),
        };
        plan.tuned = tuned::profile(&plan);
        plan
    }
}
