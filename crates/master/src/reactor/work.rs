//! One event: the reaction decides, this carries out.

use super::Reactor;
use super::consume::acknowledge;
use super::execute::Executor;
use super::in_hand::Kept;
use super::lanes::LanePlace;
use crate::core::Core;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use zester_bus::{Acknowledge, Taken};
use zester_model::node::Node;
use zester_reactor::{Command, EventContext, Input, Reaction, Settled};
use zester_wire::Origin;

pub struct Work {
    pub core: Arc<Core>,
    pub reactor: Arc<Reactor>,
    pub reaction: Reaction,
    pub taken: Arc<Taken>,
    pub _kept: Kept,
}

impl Work {
    pub async fn run(mut self, turn: LanePlace) {
        let mut turn = Some(turn);
        if let Some(turn) = &mut turn {
            turn.comes().await;
        }
        let mut context = None;
        loop {
            let settled = self.pass(&mut context).await;
            // Whoever waits behind it waits for one try, not for all.
            drop(turn.take());
            match settled {
                Settled::Done => {
                    self.reactor.is_unstuck(self.reaction.passed().place());
                    return acknowledge(&self.core, &self.taken, Acknowledge::Done).await;
                }
                Settled::Again(after) => {
                    self.tell_failures(after);
                    return acknowledge(&self.core, &self.taken, Acknowledge::Later(after)).await;
                }
                Settled::InPlace(after) => {
                    self.tell_failures(after);
                    sleep(after).await;
                }
            }
        }
    }

    fn tell_failures(&self, after: Duration) {
        let failed = self.reaction.failures().map(|(rule, _)| rule);
        self.reactor.is_stuck(self.reaction.passed().place(), failed, after);
        for (rule, why) in self.reaction.failures() {
            let id = &self.reaction.passed().event.id;
            tracing::debug!(%rule, %id, "a reaction failed for the moment: {why}");
        }
    }

    /// What templates see. Facts are those of now.
    fn context(&self) -> EventContext {
        let passed = self.reaction.passed();
        let facts = match &passed.origin {
            // They are large, and few rules ask for them.
            Origin::Peel(peel) if self.reaction.rules().uses_facts() => {
                let peels = self.core.index.snapshot();
                peels.get(peel).map_or(Value::Null, |known| (*known.facts).clone())
            }
            Origin::Peel(_) | Origin::Master | Origin::Admin => Value::Null,
        };
        EventContext::new(passed, facts)
    }

    /// All rules once.
    async fn pass(&mut self, context: &mut Option<Arc<EventContext>>) -> Settled {
        let mut next = Some(Input::Begin);
        let mut settled = Settled::Done;
        while let Some(input) = next.take() {
            let now = self.reactor.now();
            let commands = self.reaction.step(input, &mut self.reactor.guards(), now);
            for command in commands {
                match command {
                    Command::Render { rule } => {
                        next = Some(Input::Rendered(self.render(rule, context).await));
                    }
                    Command::Execute { rule, block } => {
                        let rules = self.reaction.rules().clone();
                        let Some(rule) = rules.rule(rule) else { continue };
                        let (core, passed) = (&self.core, self.reaction.passed());
                        let has_listened = self.reactor.has_listened(core);
                        let reactor = &*self.reactor;
                        let executor =
                            Executor { core, reactor, passed, rule: &rule.reference, has_listened };
                        next = Some(Input::Executed(executor.execute(&block).await));
                    }
                    Command::Note(decided) => {
                        self.reactor.metrics.decided(&decided);
                        let (passed, at) = (self.reaction.passed(), self.core.link.now());
                        tracing::debug!(rule = %decided.rule, block = %decided.block, event = %passed.event.id,
                            "{}: {}", decided.decision.as_str(), decided.reason);
                        self.reactor.note(decided.entry(passed, self.core.id.as_str(), at));
                    }
                    Command::BreakerOpened { rule } => {
                        let minutes = self.reactor.reacting.guards.storm_cooldown.as_secs() / 60;
                        tracing::warn!(%rule, "the rule fired too often and is stopped for {minutes} minutes");
                        self.reactor.tell();
                    }
                    Command::Settle(end) => settled = end,
                }
            }
        }
        settled
    }

    /// On a thread of its own kind, a few at once, and not for ever. A panic is that rule's failure.
    async fn render(
        &self,
        rule: usize,
        context: &mut Option<Arc<EventContext>>,
    ) -> Result<Node, Vec<String>> {
        let Some(template) = self.reaction.rules().template(rule) else {
            return Err(vec!["its file is not loaded; this is a mistake of ours".into()]);
        };
        if template.is_plain() {
            // It shows nothing of the event.
            return template.render(&EventContext::none());
        }
        // One for all tries: facts are those of the first.
        let context = context.get_or_insert_with(|| Arc::new(self.context())).clone();
        if self.reactor.compiler.is_quick() {
            return template.render(&context);
        }
        let _permit = self.reactor.renders.acquire().await;
        let begun = Instant::now();
        let rendering = tokio::task::spawn_blocking(move || template.render(&context));
        let limit = self.reactor.reacting.render_timeout;
        let rendered = match timeout(limit, rendering).await {
            Ok(Ok(rendered)) => rendered,
            Ok(Err(_)) => Err(vec!["rendering it broke; this is a mistake of ours".into()]),
            Err(_) => Err(vec![format!("it takes longer than {limit:?} to render")]),
        };
        self.reactor.metrics.render_seconds.observe(begun.elapsed().as_secs_f64());
        rendered
    }
}
