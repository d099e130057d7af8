//! What a rule set would have made of events of the past: the very machines of the reactor, with the time of the stream as the
//! clock, and nothing is executed.

use crate::compiler::EventContext;
use crate::config::Guards;
use crate::decision::{Decided, Decision};
use crate::gates::{Delivered, Dropped, Gates, Passed, Payload};
use crate::guard_state::GuardState;
use crate::ids::Cause;
use crate::reaction::{Command, Executed, Input, Reaction};
use crate::rule_set::RuleSet;
use crate::{Action, Block};
use serde_json::Value;
use std::sync::Arc;
use zester_wire::{Subject, UnixMillis};

/// What became of one event of the past.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    Dropped(Box<Dropped>),
    /// No rule matched.
    Unmatched(Arc<Passed>),
    Decided(Arc<Passed>, Vec<Decided>),
}

/// A rule set over events in the order of their stream.
pub struct Replay {
    rules: Arc<RuleSet>,
    gates: Gates,
    state: GuardState,
}

impl Replay {
    pub fn new(rules: Arc<RuleSet>, guards: &Guards) -> Replay {
        Replay { rules, gates: Gates::new(guards.clone()), state: GuardState::new(guards) }
    }

    /// The next event. `facts` are those of its peel, as far as they are known now.
    pub fn event(
        &mut self,
        delivered: &Delivered<'_>,
        open: impl FnOnce(&Subject) -> Payload,
        facts: impl FnOnce(&Passed) -> Value,
    ) -> Replayed {
        let now = delivered.stored;
        let first = Delivered { deliveries: 1, ..*delivered };
        let passed = match self.gates.judge(&first, open, now) {
            Ok(passed) => Arc::new(passed),
            Err(dropped) => return Replayed::Dropped(dropped),
        };
        let matched = self.rules.matching(&passed.key);
        if matched.is_empty() {
            return Replayed::Unmatched(passed);
        }
        let context = EventContext::new(&passed, facts(&passed));
        let decided = self.react(&passed, matched, &context, now);
        Replayed::Decided(passed, decided)
    }

    fn react(
        &mut self,
        passed: &Arc<Passed>,
        matched: Vec<usize>,
        context: &EventContext,
        now: UnixMillis,
    ) -> Vec<Decided> {
        let guards = self.gates.guards().clone();
        let mut reaction = Reaction::new(passed.clone(), self.rules.clone(), matched, &guards);
        let mut decided = Vec::new();
        let mut next = Some(Input::Begin);
        while let Some(input) = next.take() {
            for command in reaction.step(input, &mut self.state, now) {
                match command {
                    Command::Render { rule } => {
                        let rendered = match self.rules.template(rule) {
                            Some(template) => template.render(context),
                            None => Err(vec!["its file is not loaded".to_string()]),
                        };
                        next = Some(Input::Rendered(rendered));
                    }
                    Command::Execute { rule, block } => {
                        next = Some(Input::Executed(Executed::Done(Box::new(
                            self.imagine(passed, rule, block),
                        ))));
                    }
                    Command::Note(one) => decided.push(one),
                    Command::BreakerOpened { .. } | Command::Settle(_) => {}
                }
            }
        }
        decided
    }

    /// What the block would do, where the fleet lets it.
    fn imagine(&self, passed: &Passed, rule: usize, block: Block) -> Decided {
        let rule = self.rules.rule(rule).map_or("", |rule| &rule.reference);
        let cause = Cause { origin: &passed.origin, event_id: &passed.event.id, rule, block: &block.id };
        let word = block.action.word();
        match &block.action {
            Action::Dispatch(dispatch) => {
                let why = format!("{} to {}", dispatch.function, dispatch.target);
                Decided { jid: cause.jid().ok(), ..Decided::new(rule, &block.id, Decision::Dispatched, why) }
            }
            Action::Send { tag, .. } => {
                let sent = Decided::new(rule, &block.id, Decision::Sent, tag.as_str());
                Decided { event_sent: cause.event(), ..sent }
            }
            Action::Log { message, .. } => Decided::new(rule, &block.id, Decision::Logged, message.as_str()),
            Action::Enroll(_) => Decided::new(rule, &block.id, Decision::Enrolled, word),
        }
    }
}
