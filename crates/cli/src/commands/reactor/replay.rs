//! `zester reactor replay`: what other rules would have made of what happened.

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::exit::Exit;
use crate::fleet::watching::client_failure;
use crate::output::reactor_text::{self, Difference};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zester_client::{Client, LedgerQuery};
use zester_converge::reactions::{self, Reactions};
use zester_model::source::Sources;
use zester_reactor::replay::{Replay, Replayed};
use zester_reactor::{Decided, Delivered, Payload, RuleSet};
use zester_wire::{Event, LedgerEntry, Origin, UnixMillis};

/// Differences that are kept to be shown; all are counted.
const DIFFERENCES_KEPT: usize = 10_000;

/// What one block of one rule is known by.
type Place = (String, String, String);

/// What came of a replay.
#[derive(Default)]
pub struct Report {
    pub events: usize,
    pub dropped: usize,
    pub unmatched: usize,
    /// Decisions that are as they were.
    pub same: usize,
    /// All that are not.
    pub different: usize,
    pub differences: Vec<Difference>,
    /// By rule and decision.
    pub would: BTreeMap<(String, String), usize>,
}

pub async fn run(app: &App, client: &Client, since: Duration, directory: &Path) -> answer::Result {
    let paint = app.output.paint();
    let show = move |found: &[_], sources: &Sources| crate::output::diagnostics::text(found, sources, paint);
    let compiler = Reactions::new(show);
    let rules = Arc::new(load(&compiler, directory)?);
    let guards = app.config.reactor.over_defaults(Arc::new(compiler)).guards;
    let ledger = client.ledger(since, &LedgerQuery::default()).await.map_err(client_failure)?;
    let facts = client.facts().await.map_err(client_failure)?;
    let mut was = happened(ledger);
    let mut replay = Replay::new(rules, &guards);
    let mut report = Report::default();
    let link = client.link();
    let each = client.each_stored_event(since, |record| {
        let delivered = Delivered {
            subject: &record.subject,
            sequence: record.sequence,
            stored: UnixMillis(record.at),
            deliveries: 1,
        };
        let open = |_: &_| match link.open::<Event>(&record.subject, record) {
            Some(opened) => Payload::Read { event: opened.message, signed: opened.signed },
            None => Payload::Unreadable("it is not an event".into()),
        };
        let known = |passed: &zester_reactor::Passed| match &passed.origin {
            Origin::Peel(peel) => facts.get(peel).cloned().map_or(Json::Null, Json::Object),
            Origin::Master | Origin::Admin => Json::Null,
        };
        report.events += 1;
        match replay.event(&delivered, open, known) {
            Replayed::Dropped(dropped) => {
                report.dropped += 1;
                let place = (dropped.id.clone(), String::new(), String::new());
                let key = format!("{}/{}", dropped.source(), shown_tag(&dropped.tag));
                report.compare(&key, place, dropped.reason.as_str(), &dropped.why, &mut was);
            }
            Replayed::Unmatched(_) => report.unmatched += 1,
            Replayed::Decided(passed, decided) => {
                for Decided { rule, block, decision, reason, .. } in decided {
                    *report.would.entry((rule.clone(), decision.as_str().into())).or_default() += 1;
                    let place = (passed.event.id.clone(), rule, block);
                    report.compare(&passed.key, place, decision.as_str(), &reason, &mut was);
                }
            }
        }
    });
    each.await.map_err(client_failure)?;
    report.only_before(was);
    let text = reactor_text::replayed(&report, app.output.paint());
    Ok((Answer::Document { json: document(&report), text }, Exit::Good))
}

fn load(compiler: &Reactions, directory: &Path) -> Result<RuleSet, Failure> {
    let loaded = reactions::load(directory, compiler)?;
    loaded.map_err(|problems| {
        let hint = format!("`zester lint {}` shows all", directory.display());
        Failure::usage(format!("the rules cannot be used; {hint}:\n{}", problems.join("\n")))
    })
}

fn shown_tag(tag: &Option<zester_wire::Tag>) -> &str {
    tag.as_ref().map_or("", |tag| tag.as_str())
}

/// What the ledger says, each place once: a redelivery says `duplicate` of what was done before.
fn happened(ledger: Vec<LedgerEntry>) -> BTreeMap<Place, LedgerEntry> {
    let mut was: BTreeMap<Place, LedgerEntry> = BTreeMap::new();
    for entry in ledger {
        let place = (entry.event_id.clone(), entry.rule.clone(), entry.block.clone());
        let again = entry.decision == "duplicate" && was.contains_key(&place);
        if !again {
            was.insert(place, entry);
        }
    }
    was
}

/// How a decision is compared. A replay asks no peel: whatever a fleet made of an effect, it was one.
fn kind(decision: &str) -> &str {
    match decision {
        "dispatched" | "sent" | "logged" | "duplicate" | "no_targets" | "aborted" | "error" | "exhausted" => {
            "effect"
        }
        other => other,
    }
}

impl Report {
    fn compare(
        &mut self,
        key: &str,
        place: Place,
        decision: &str,
        reason: &str,
        was: &mut BTreeMap<Place, LedgerEntry>,
    ) {
        let before = was.remove(&place);
        let word = before.as_ref().map(|entry| entry.decision.as_str());
        if word.map(kind) == Some(kind(decision)) {
            self.same += 1;
            return;
        }
        let (event, rule, block) = place;
        let (key, before) = (key.to_string(), word.unwrap_or_default().to_string());
        let (now, reason) = (decision.to_string(), reason.to_string());
        self.add(Difference { event, key, rule, block, before, now, reason });
    }

    /// What was decided then and would not be now.
    fn only_before(&mut self, was: BTreeMap<Place, LedgerEntry>) {
        for ((event, rule, block), entry) in was {
            let (key, reason) = (format!("{}/{}", entry.origin, entry.tag), String::new());
            self.add(Difference {
                event,
                key,
                rule,
                block,
                before: entry.decision,
                now: String::new(),
                reason,
            });
        }
    }

    fn add(&mut self, difference: Difference) {
        self.different += 1;
        if self.differences.len() < DIFFERENCES_KEPT {
            self.differences.push(difference);
        }
    }
}

fn document(report: &Report) -> Json {
    let would: Vec<Json> = report
        .would
        .iter()
        .map(|((rule, decision), count)| json!({ "rule": rule, "decision": decision, "count": count }))
        .collect();
    let differences: Vec<Json> = report
        .differences
        .iter()
        .map(|one| {
            json!({
                "event_id": one.event, "key": one.key, "rule": one.rule, "block": one.block,
                "before": one.before, "now": one.now, "reason": one.reason,
            })
        })
        .collect();
    json!({
        "events": report.events, "dropped": report.dropped, "unmatched": report.unmatched, "same": report.same,
        "different": report.different, "would": would, "differences": differences,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("R-23")]
    fn r23_what_differs_is_what_would_be_done_and_was_not_or_the_other_way_round() {
        let entry = |id: &str, rule: &str, decision: &str| LedgerEntry {
            event_id: id.into(),
            rule: rule.into(),
            block: "b".into(),
            decision: decision.into(),
            ..LedgerEntry::default()
        };
        let mut was = happened(vec![
            entry("e1", "reactor.a", "dispatched"),
            entry("e1", "reactor.a", "duplicate"),
            entry("e2", "reactor.a", "no_targets"),
            entry("e3", "reactor.a", "dispatched"),
            entry("e4", "reactor.old", "sent"),
        ]);
        let mut report = Report::default();
        let place = |id: &str, rule: &str| (id.to_string(), rule.to_string(), "b".to_string());
        for (id, rule, decision) in [
            ("e1", "reactor.a", "dispatched"),
            ("e2", "reactor.a", "dispatched"),
            ("e3", "reactor.a", "throttled"),
            ("e3", "reactor.new", "logged"),
        ] {
            report.compare("web-1/x", place(id, rule), decision, "", &mut was);
        }
        report.only_before(was);
        assert_eq!((report.same, report.different), (2, 3));
        let told: Vec<_> =
            report.differences.iter().map(|one| (&*one.rule, &*one.before, &*one.now)).collect();
        let expected = [
            ("reactor.a", "dispatched", "throttled"),
            ("reactor.new", "", "logged"),
            ("reactor.old", "sent", ""),
        ];
        assert_eq!(told, expected);
    }
}
