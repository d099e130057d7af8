//! `zester reactor replay`: what other rules would have made of what happened.

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::exit::Exit;
use crate::fleet::watching::client_failure;
use crate::output::reactor_text::{self, Difference};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::Record;
use zester_client::{Client, LedgerQuery};
use zester_converge::reactions::{self, Reactions};
use zester_identity::Role;
use zester_link::Link;
use zester_model::source::Sources;
use zester_policy::{Rights, Wanted};
use zester_reactor::replay::{Replay, Replayed};
use zester_reactor::{Decided, Delivered, DropReason, Dropped, Payload, RuleSet};
use zester_wire::{Event, LedgerEntry, Origin, Subject, UnixMillis};

/// Differences that are kept to be shown; all are counted.
const DIFFERENCES_KEPT: usize = 10_000;

/// Events before those that are asked for, which throttles and breakers remember: longer than a breaker stays open.
const WARM_UP: Duration = Duration::from_secs(600);

/// What one block of one rule is known by.
type Place = (String, String, String);

/// What the ledger says.
#[derive(Default)]
struct Happened {
    /// Each place once: a redelivery says `duplicate` of what was done before.
    decisions: BTreeMap<Place, LedgerEntry>,
    /// Events of these that the replay has not met.
    unmet: BTreeSet<String>,
    /// Drops that were counted and not written, and those without an id, by origin and reason.
    unwritten: BTreeMap<(String, String), u64>,
}

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
    /// Decisions about events that are not among those of the replay: they left the stream, or came earlier.
    pub not_met: usize,
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
    let mut was = Happened::of(ledger);
    let mut replay = Replay::new(rules, &guards);
    let mut report = Report::default();
    let link = client.link();
    let rights = link.trust().map(|trust| Rights::new(&trust.roles()));
    let begin = UnixMillis(link.now().0.saturating_sub(zester_wire::time::as_millis(since)));
    let each = client.each_stored_event(since.saturating_add(WARM_UP), |record| {
        let delivered = Delivered {
            subject: &record.subject,
            sequence: record.sequence,
            stored: UnixMillis(record.at),
            deliveries: 1,
        };
        let open = |subject: &_| read(link, rights.as_ref(), subject, record);
        let known = |passed: &zester_reactor::Passed| match &passed.origin {
            Origin::Peel(peel) => facts.get(peel).cloned().map_or(Json::Null, Json::Object),
            Origin::Master | Origin::Admin => Json::Null,
        };
        let replayed = replay.event(&delivered, open, known);
        if record.at < begin.0 {
            return;
        }
        report.events += 1;
        match replayed {
            Replayed::Dropped(dropped) => {
                report.dropped += 1;
                was.meet(&dropped.id);
                if was.take_unwritten(&dropped) {
                    report.same += 1;
                    return;
                }
                let place = (dropped.id.clone(), String::new(), String::new());
                let tag = dropped.tag.as_ref().map_or("", |tag| tag.as_str());
                let key = reactor_text::event_key(&dropped.source(), tag);
                report.compare(&key, place, dropped.reason.as_str(), &dropped.why, &mut was);
            }
            Replayed::Unmatched(passed) => {
                report.unmatched += 1;
                was.meet(&passed.event.id);
            }
            Replayed::Decided(passed, decided) => {
                was.meet(&passed.event.id);
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

/// As a master reads it, with the roles of now.
fn read(link: &Link, rights: Option<&Rights>, subject: &Subject, record: &Record) -> Payload {
    let opened = match link.try_open::<Event>(subject, record) {
        Ok(opened) => opened,
        Err(zester_link::Error::Spoof { why, .. }) => return Payload::Forged(why.to_string()),
        Err(error) => return Payload::Unreadable(error.to_string()),
    };
    let who = opened.principal.as_ref().filter(|who| who.role == Role::Operator);
    match who.zip(rights).map(|(who, rights)| rights.judge(&who.name, &Wanted::Verb("event"), None)) {
        Some(verdict) if !verdict.allowed => Payload::Forged(verdict.why),
        _ => Payload::Read { event: opened.message, signed: opened.signed },
    }
}

impl Happened {
    fn of(ledger: Vec<LedgerEntry>) -> Happened {
        let mut was = Happened::default();
        // What nobody was given stands in no stream any more, so no replay meets it.
        let met = |entry: &LedgerEntry| entry.decision != DropReason::Unread.as_str();
        for entry in ledger.into_iter().filter(met) {
            let is_nameless = entry.event_id.is_empty();
            if entry.unwritten > 0 || is_nameless {
                let of = (entry.origin.clone(), entry.decision.clone());
                *was.unwritten.entry(of).or_default() += entry.unwritten + u64::from(is_nameless);
            }
            if is_nameless {
                continue;
            }
            was.unmet.insert(entry.event_id.clone());
            let place = (entry.event_id.clone(), entry.rule.clone(), entry.block.clone());
            let again = entry.decision == "duplicate" && was.decisions.contains_key(&place);
            if !again {
                was.decisions.insert(place, entry);
            }
        }
        was
    }

    /// The replay came to this event.
    fn meet(&mut self, event: &str) {
        self.unmet.remove(event);
    }

    /// What was decided there. A rule that was held back has one line, whatever blocks it would have had: it stands for each, and
    /// the other way round. So does an event that was dropped, for all that rules would have made of it.
    fn take(&mut self, place: &Place) -> Option<LedgerEntry> {
        let (event, rule, block) = place;
        if let Some(found) = self.decisions.remove(place) {
            return Some(found);
        }
        let dropped = (event.clone(), String::new(), String::new());
        if !block.is_empty() {
            let held_back = self.decisions.remove(&(event.clone(), rule.clone(), String::new()));
            return held_back.or_else(|| self.decisions.remove(&dropped));
        }
        let of_rule = |place: &&Place| place.0 == *event && (rule.is_empty() || place.1 == *rule);
        let from = (event.clone(), rule.clone(), String::new());
        let places: Vec<Place> =
            self.decisions.range(from..).map(|(place, _)| place).take_while(of_rule).cloned().collect();
        let mut found = places.iter().filter_map(|place| self.decisions.remove(place));
        let first = found.next();
        found.for_each(drop);
        first.or_else(|| self.decisions.remove(&dropped))
    }

    /// Whether such a drop was counted and not written, beyond those that were.
    fn take_unwritten(&mut self, dropped: &Dropped) -> bool {
        if self.decisions.contains_key(&(dropped.id.clone(), String::new(), String::new())) {
            return false;
        }
        let of = (dropped.source().to_string(), dropped.reason.as_str().to_string());
        match self.unwritten.get_mut(&of) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
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
    fn compare(&mut self, key: &str, place: Place, decision: &str, reason: &str, was: &mut Happened) {
        let before = was.take(&place);
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
    fn only_before(&mut self, was: Happened) {
        for ((event, rule, block), entry) in was.decisions {
            if was.unmet.contains(&event) {
                self.not_met += 1;
                continue;
            }
            let (key, reason) = (reactor_text::event_key(&entry.origin, &entry.tag), String::new());
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
        "different": report.different, "not_met": report.not_met, "would": would, "differences": differences,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::PeelId;

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
        let mut was = Happened::of(vec![
            entry("e1", "reactor.a", "dispatched"),
            entry("e1", "reactor.a", "duplicate"),
            entry("e2", "reactor.a", "no_targets"),
            entry("e3", "reactor.a", "dispatched"),
            entry("e4", "reactor.old", "sent"),
        ]);
        let mut report = Report::default();
        ["e1", "e2", "e3", "e4"].into_iter().for_each(|id| was.meet(id));
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

    #[test]
    #[rule("R-23")]
    fn r23_a_rule_that_was_held_back_is_one_difference_whatever_it_would_have_done() {
        let entry = |block: &str, decision: &str| LedgerEntry {
            event_id: "e1".into(),
            rule: "reactor.a".into(),
            block: block.into(),
            decision: decision.into(),
            ..LedgerEntry::default()
        };
        let place = |block: &str| ("e1".to_string(), "reactor.a".to_string(), block.to_string());
        let told = |ledger, block, decision| {
            let (mut was, mut report) = (Happened::of(ledger), Report::default());
            was.meet("e1");
            report.compare("web-1/x", place(block), decision, "", &mut was);
            report.only_before(was);
            let words = report.differences.into_iter().map(|one| (one.before, one.now));
            (report.same, words.collect::<Vec<_>>())
        };
        let words = |before: &str, now: &str| vec![(before.to_string(), now.to_string())];
        let held = vec![entry("", "throttled")];
        assert_eq!(told(held.clone(), "b", "dispatched"), (0, words("throttled", "dispatched")));
        assert_eq!(told(held, "", "throttled"), (1, Vec::new()));
        let done = vec![entry("b", "dispatched"), entry("c", "logged")];
        assert_eq!(told(done, "", "throttled"), (0, words("dispatched", "throttled")));
    }

    /// An event that was dropped and is decided now, or the other way round, is one thing that differs.
    #[test]
    #[rule("R-23")]
    fn r23_an_event_is_told_once_whether_it_was_dropped_then_or_is_now() {
        let entry = |rule: &str, decision: &str| LedgerEntry {
            event_id: "e1".into(),
            rule: rule.into(),
            decision: decision.into(),
            ..LedgerEntry::default()
        };
        let told = |was: LedgerEntry, rule: &str, decision: &str| {
            let (mut was, mut report) = (Happened::of(vec![was]), Report::default());
            was.meet("e1");
            report.compare("web-1/x", ("e1".into(), rule.into(), String::new()), decision, "", &mut was);
            report.only_before(was);
            report.differences.into_iter().map(|one| (one.before, one.now)).collect::<Vec<_>>()
        };
        let words = |before: &str, now: &str| vec![(before.to_string(), now.to_string())];
        assert_eq!(told(entry("", "ratelimit"), "reactor.a", "dispatched"), words("ratelimit", "dispatched"));
        assert_eq!(told(entry("reactor.a", "dispatched"), "", "spoof"), words("dispatched", "spoof"));
    }

    /// What was forged, or sent without the right to, has no id in the ledger.
    #[test]
    #[rule("R-22", "R-23")]
    fn r23_drops_without_an_id_are_as_they_were() {
        let entry = LedgerEntry {
            origin: "_admin".into(),
            decision: "spoof".into(),
            unwritten: 1,
            ..LedgerEntry::default()
        };
        let mut was = Happened::of(vec![entry]);
        let dropped = Dropped {
            reason: DropReason::Spoof,
            why: String::new(),
            origin: Some(Origin::Admin),
            tag: None,
            id: String::new(),
            depth: 0,
            sequence: 1,
        };
        assert!(was.take_unwritten(&dropped) && was.take_unwritten(&dropped));
        assert!(!was.take_unwritten(&dropped), "two were, and no more");
        let mut report = Report::default();
        report.only_before(was);
        assert_eq!(report.different, 0);
    }

    #[test]
    #[rule("R-23")]
    fn r23_decisions_about_events_that_left_the_stream_are_counted_and_no_difference() {
        let entry = |id: &str| LedgerEntry {
            event_id: id.into(),
            rule: "reactor.a".into(),
            decision: "logged".into(),
            ..LedgerEntry::default()
        };
        let (mut was, mut report) = (Happened::of(vec![entry("e1"), entry("e2")]), Report::default());
        was.meet("e2");
        report.only_before(was);
        assert_eq!((report.not_met, report.different), (1, 1));
        assert_eq!(report.differences[0].event, "e2");
    }

    /// They are in no stream any more, so no replay can meet them.
    #[test]
    #[rule("R-22", "R-23")]
    fn r23_events_that_left_the_stream_unread_are_no_difference() {
        let entry = Dropped::unread(1, 110).entry("m1", zester_wire::UnixMillis(1), 6);
        let (was, mut report) = (Happened::of(vec![entry]), Report::default());
        assert!(was.unwritten.is_empty());
        report.only_before(was);
        assert_eq!((report.different, report.differences.len()), (0, 0));
    }

    #[test]
    #[rule("R-22", "R-23")]
    fn r23_drops_that_the_ledger_only_counted_are_as_they_were() {
        let entry = LedgerEntry {
            event_id: "e1".into(),
            origin: "web-1".into(),
            decision: "ratelimit".into(),
            unwritten: 1,
            ..LedgerEntry::default()
        };
        let mut was = Happened::of(vec![entry]);
        let dropped = |id: &str| Dropped {
            reason: DropReason::Ratelimit,
            why: String::new(),
            origin: Some(Origin::Peel(PeelId::parse("web-1").unwrap())),
            tag: None,
            id: id.into(),
            depth: 0,
            sequence: 1,
        };
        assert!(!was.take_unwritten(&dropped("e1")), "that one is written");
        assert!(was.take_unwritten(&dropped("e2")));
        assert!(!was.take_unwritten(&dropped("e3")), "one was counted and no more");
    }
}
