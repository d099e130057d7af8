//! Of every peel, whether an expression means it and which part of it said no (D-8).

use super::{Index, Known, bad_target};
use serde_json::Value;
use std::ops::Bound;
use std::sync::Arc;
use zester_model::target::{Decision, Subject, Target};
use zester_wire::{ExplainedPage, ExplainedPeel, PartSaidNo, PeelId, Refusal, RefusalKind};

/// Letters that are told of why settings do not render.
const WHY_LETTERS: usize = 200;

impl Index {
    /// A page of all peels, by name, beginning after one of them. Settings are rendered on a thread of their own.
    pub async fn explain(
        self: &Arc<Index>,
        expression: &str,
        after: Option<PeelId>,
        most: usize,
    ) -> Result<ExplainedPage, Refusal> {
        let target = Target::parse(expression).map_err(|error| bad_target(expression, &error))?;
        if !target.needs_settings() {
            return Ok(self.explained(expression, &target, after.as_ref(), most));
        }
        let (index, expression) = (self.clone(), expression.to_string());
        let explained = move || index.explained(&expression, &target, after.as_ref(), most);
        let page = tokio::task::spawn_blocking(explained).await;
        page.map_err(|error| {
            Refusal::new(RefusalKind::Unavailable, format!("the target was not resolved: {error}; ask again"))
        })
    }

    fn explained(
        &self,
        expression: &str,
        target: &Target,
        after: Option<&PeelId>,
        most: usize,
    ) -> ExplainedPage {
        let peels = self.snapshot();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        // One more than the page holds shows whether there is another.
        let range = (from, Bound::Unbounded);
        let mut named: Vec<PeelId> =
            peels.range::<PeelId, _>(range).take(most + 1).map(|(peel, _)| peel.clone()).collect();
        // Whoever has no facts yet is a target as long as it is there.
        let bare = self.presence.online().into_iter().filter(|peel| !peels.contains_key(peel));
        named.extend(bare.filter(|peel| after.is_none_or(|after| peel > after)));
        named.sort_unstable();
        let more = named.len() > most;
        let nothing = Known::nothing();
        let explain =
            |peel: &PeelId| self.explain_one(expression, target, peel, peels.get(peel).unwrap_or(&nothing));
        ExplainedPage { peels: named.iter().take(most).map(explain).collect(), more }
    }

    fn explain_one(&self, expression: &str, target: &Target, peel: &PeelId, known: &Known) -> ExplainedPeel {
        let none = Value::Null;
        let rendered = target.needs_settings().then(|| self.settings_of(peel, known)).transpose();
        let said_no = match &rendered {
            Ok(settings) => {
                let settings = settings.as_deref().unwrap_or(&none);
                target.refusals(&Subject { id: peel.as_str(), facts: &known.facts, settings })
            }
            Err(_) if target.matches_without_settings(peel.as_str(), &known.facts) == Some(true) => {
                Vec::new()
            }
            Err(why) => {
                let why: String =
                    why.chars().filter(|letter| !letter.is_control()).take(WHY_LETTERS).collect();
                let found = format!("its settings do not render: {why}");
                vec![Decision { part: expression.to_string(), found }]
            }
        };
        let status = self.presence.status(peel);
        ExplainedPeel {
            peel: peel.clone(),
            matches: said_no.is_empty(),
            online: status.online,
            last_seen: status.last_seen,
            said_no: said_no.into_iter().map(|Decision { part, found }| PartSaidNo { part, found }).collect(),
        }
    }
}
