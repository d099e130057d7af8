//! What operators ask of the reactor: a test of the rules, a list of them, and to let a stopped rule go on.

use super::Reactor;
use crate::core::Core;
use crate::limits::{PASS_WAIT, REACTOR_TESTS_WAITING, RULE_PROBLEMS_NAMED, RULES_LISTED};
use crate::router::subscribe;
use crate::services::must_be_fresh;
use serde_json::Value;
use std::sync::Arc;
use zester_bus::{Delivery, Listen, Message};
use zester_reactor::{Action, EventContext, Passed, RuleSet, actions, subject_of_key};
use zester_wire::subject::{REACTOR_TESTERS, all_of_holder};
use zester_wire::{
    AdminReply, AdminRequest, BadName, Event, Origin, ReactorTestReply, ReactorTestRequest, Refusal,
    RefusalKind, RuleList, RuleStatus, Subject, TestedBlock, TestedRule, Token, UnixMillis, VERSION,
};

/// Where masters pass on what is for those that react.
const HOLDER: &str = "reactor";

/// All that is passed on.
pub fn admin_subjects() -> Result<String, BadName> {
    Ok(all_of_holder(&Token::parse(HOLDER)?))
}

/// Takes tests, one after the other. Ends when the bus is closed.
pub async fn run(core: Arc<Core>, reactor: Arc<Reactor>) {
    let shared = Listen::shared(REACTOR_TESTERS, REACTOR_TESTS_WAITING);
    let mut tests = subscribe(&core, &Subject::ReactorTest.to_string(), &shared).await;
    while let Some(delivery) = tests.next().await {
        if let Delivery::Message(message) = delivery {
            test(&core, &reactor, message).await;
        }
    }
}

async fn test(core: &Arc<Core>, reactor: &Arc<Reactor>, message: Message) {
    let opened = core.link.open::<ReactorTestRequest>(&message.subject, &message.payload);
    let Some(opened) = opened else { return };
    let reply = match tested(core, reactor, opened.message).await {
        Ok(reply) => reply,
        Err(refusal) => ReactorTestReply { v: VERSION, error: Some(refusal), ..ReactorTestReply::default() },
    };
    let reply = ReactorTestReply { master: core.id.to_string(), ..reply };
    core.answer(message.reply.as_deref(), &reply).await;
}

/// What would become of such an event. Nothing is executed, and no guard is asked.
async fn tested(
    core: &Arc<Core>,
    reactor: &Arc<Reactor>,
    asked: ReactorTestRequest,
) -> Result<ReactorTestReply, Refusal> {
    let Some(rules) = reactor.rules() else {
        return Err(Refusal::new(RefusalKind::Unavailable, "no rules were published yet"));
    };
    let Some(subject) = subject_of_key(&asked.key) else {
        let why = format!("`{}` is no event key; write ORIGIN/TAG, as web-1/deploy/done", asked.key);
        return Err(Refusal::new(RefusalKind::Invalid, why));
    };
    let event = Event {
        id: "test".into(),
        tag: subject.tag(),
        data: asked.data,
        ts: core.link.now(),
        v: VERSION,
        origin: String::new(),
        depth: 0,
    };
    let origin = subject.origin();
    let facts = match &origin {
        Origin::Peel(peel) => core.index.snapshot().get(peel).map(|known| (*known.facts).clone()),
        Origin::Master | Origin::Admin => None,
    };
    let (key, stored) = (asked.key, UnixMillis(0));
    let passed = Passed { event, origin, key, sequence: 0, deliveries: 1, stored };
    let context = Arc::new(EventContext::new(&passed, facts.unwrap_or(Value::Null)));
    let mut tested = Vec::new();
    for place in rules.matching(&passed.key) {
        tested.push(test_rule(core, reactor, &rules, place, context.clone()).await);
    }
    Ok(ReactorTestReply {
        v: VERSION,
        revision: rules.revision,
        rules: tested,
        ..ReactorTestReply::default()
    })
}

async fn test_rule(
    core: &Arc<Core>,
    reactor: &Reactor,
    rules: &RuleSet,
    place: usize,
    context: Arc<EventContext>,
) -> TestedRule {
    let (Some(rule), Some(template)) = (rules.rule(place), rules.template(place)) else {
        return TestedRule::default();
    };
    let mut tested =
        TestedRule { rule: rule.reference.to_string(), glob: rule.glob.clone(), ..TestedRule::default() };
    let _permit = reactor.renders.acquire().await;
    let rendered = tokio::task::spawn_blocking(move || template.render(&context)).await;
    let node = match rendered {
        Ok(Ok(node)) => node,
        Ok(Err(problems)) => return TestedRule { errors: problems, ..tested },
        Err(_) => return TestedRule { errors: vec!["rendering it broke".into()], ..tested },
    };
    match actions::read(&node) {
        Ok(blocks) => {
            for block in blocks {
                let targets = match &block.action {
                    Action::Dispatch(dispatch) => {
                        core.index.resolve_aside(&dispatch.target).await.ok().map(|found| found.peels)
                    }
                    _ => None,
                };
                tested.blocks.push(TestedBlock {
                    block: block.id,
                    action: block.action.word().to_string(),
                    rendered: block.action.shown(),
                    targets: targets.map(|targets| targets.len() as u64),
                });
            }
        }
        Err(problems) => {
            let words = |one: &zester_model::diagnostic::Diagnostic| match &one.hint {
                Some(hint) => format!("{}: {}; {hint}", rule.path, one.message),
                None => format!("{}: {}", rule.path, one.message),
            };
            tested.errors = problems.iter().map(words).collect();
        }
    }
    tested
}

/// `zester.admin.reactor_rules` and `zester.admin.breaker_close`, at whichever master got it.
pub async fn handle_admin(core: Arc<Core>, request: AdminRequest, reply: Option<String>) {
    let here = core.reactor.as_ref().filter(|_| request == AdminRequest::ReactorRules);
    let answer = match here {
        Some(reactor) => AdminReply { reactor: Some(list(&core, reactor)), ..AdminReply::done("") },
        None => pass_on(&core, request).await.unwrap_or_else(AdminReply::refusing),
    };
    core.answer(reply.as_deref(), &answer).await;
}

/// All masters that react hear it, and the first answer counts.
async fn pass_on(core: &Core, request: AdminRequest) -> Result<AdminReply, Refusal> {
    let unavailable = |why: String| Refusal::new(RefusalKind::Unavailable, why);
    let bad = |bad: BadName| unavailable(bad.to_string());
    let verb = Token::parse(request.verb().unwrap_or_default()).map_err(bad)?;
    let subject = Subject::Holder { lease: Token::parse(HOLDER).map_err(bad)?, verb };
    let passed = core.link.request::<AdminRequest, AdminReply>(&subject, &request, PASS_WAIT).await;
    passed.map_err(|error| unavailable(format!("no master answers for the reactor ({error}); ask again")))
}

pub async fn handle_passed(core: Arc<Core>, message: Message, received: UnixMillis) {
    let Some(reactor) = core.reactor.clone() else { return };
    let Some(subject) = core.link.subject_of(&message) else { return };
    let Some(opened) = core.link.open_addressed::<AdminRequest>(&subject, &message.payload) else { return };
    if let Err(refusal) = must_be_fresh(&opened, received) {
        return core.answer(message.reply.as_deref(), &AdminReply::refusing(refusal)).await;
    }
    let answer = match opened.message {
        AdminRequest::ReactorRules => {
            AdminReply { reactor: Some(list(&core, &reactor)), ..AdminReply::done("") }
        }
        AdminRequest::BreakerClose { rule, user } => match close(&reactor, &rule, &user) {
            Ok(sentence) => AdminReply::done(sentence),
            Err(refusal) => AdminReply::refusing(refusal),
        },
        _ => return,
    };
    core.answer(message.reply.as_deref(), &answer).await;
}

fn close(reactor: &Reactor, rule: &str, user: &str) -> Result<String, Refusal> {
    let known = reactor.rules().is_some_and(|set| set.rules().iter().any(|one| *one.reference == *rule));
    let closed = reactor.guards().breakers.close(rule);
    if !known && !closed {
        let why = format!("there is no rule `{rule}`; `zester reactor rules` lists them");
        return Err(Refusal::new(RefusalKind::Invalid, why));
    }
    if !closed {
        return Ok(format!("{rule} may fire at every master; at the one that answered it was not stopped"));
    }
    tracing::info!(rule, user, "an operator let the rule go on");
    reactor.tell();
    Ok(format!("{rule} may fire again, at every master"))
}

fn list(core: &Core, reactor: &Reactor) -> RuleList {
    let rules = reactor.rules();
    let all = rules.as_ref().map_or(&[][..], |rules| rules.rules());
    let (guards, now) = (reactor.guards(), reactor.now());
    let status = |rule: &zester_reactor::Rule| RuleStatus {
        rule: rule.reference.to_string(),
        glob: rule.glob.clone(),
        file: rule.path.clone(),
        throttle: rule.throttle.unwrap_or(reactor.reacting.guards.default_throttle),
        fires: guards.breakers.fires(&rule.reference, now) as u64,
        open_until: guards.breakers.open_until(&rule.reference, now).unwrap_or_default(),
    };
    let listed = all.iter().take(RULES_LISTED).map(status).collect();
    let condition = reactor.condition();
    let problems =
        condition.torn.iter().chain(&condition.problems).take(RULE_PROBLEMS_NAMED).cloned().collect();
    drop(condition);
    RuleList {
        revision: rules.as_ref().map_or(0, |rules| rules.revision),
        master: core.id.to_string(),
        rules: listed,
        more: all.len().saturating_sub(RULES_LISTED) as u64,
        problems,
    }
}
