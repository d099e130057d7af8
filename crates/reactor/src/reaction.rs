//! The way of one event through the rules that it matched: what to render, what to execute, what was decided, and whether the
//! event is done with.
//!
//! Rules run in the order of the file, and so do the blocks of a rule. A rule that fails for the moment holds up no other; it is
//! tried again when the event comes again, and what was done before is found done. One that was handed back a few times is not
//! handed back again: it is kept alive and tried where it is. Only whoever dies with it gives it to another.

use crate::actions::{self, Action, Block};
use crate::config::Guards;
use crate::decision::{Decided, Decision};
use crate::gates::Passed;
use crate::guard_state::{Fire, GuardState, Hold};
use crate::limits::{AGAIN_AFTER, DELIVERIES_HANDED, DELIVERIES_MAX, TRIES_IN_PLACE};
use crate::rule_set::RuleSet;
use std::sync::Arc;
use std::time::Duration;
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_wire::{Origin, UnixMillis};

/// What the reaction is told.
#[derive(Debug)]
pub enum Input {
    /// The event may begin, or is tried again where it is.
    Begin,
    /// How the file of the rule that was asked for rendered.
    Rendered(Result<Node, Vec<String>>),
    /// How the block that was asked for ended.
    Executed(Executed),
}

/// How an effect ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Executed {
    /// It is done, or never will be.
    Done(Box<Decided>),
    /// It may succeed later.
    Transient(String),
}

/// What is to be done next. One thing at a time: the next is asked for when it has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Render the file of the rule at this place of the set.
    Render { rule: usize },
    /// Carry out a block of it.
    Execute { rule: usize, block: Block },
    /// Note what was decided.
    Note(Decided),
    /// Tell people that this rule fired too often and is stopped.
    BreakerOpened { rule: Arc<str> },
    /// All rules have had their turn.
    Settle(Settled),
}

/// What becomes of the event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is done with.
    Done,
    /// It is handed back, and comes again after this time.
    Again(Duration),
    /// It is kept alive, and begins again here after this time.
    InPlace(Duration),
}

/// One rule of the event.
struct Step {
    rule: usize,
    done: bool,
    /// What its blocks came to in this pass.
    came_to: Vec<Decision>,
    /// Why it could not be completed in the last pass.
    failed: Option<(String, String)>,
}

pub struct Reaction {
    passed: Arc<Passed>,
    rules: Arc<RuleSet>,
    guards: Guards,
    steps: Vec<Step>,
    at: usize,
    blocks: std::vec::IntoIter<Block>,
    under_way: Option<String>,
    tries_in_place: u32,
}

impl Reaction {
    pub fn new(passed: Arc<Passed>, rules: Arc<RuleSet>, matched: Vec<usize>, guards: &Guards) -> Reaction {
        let step = |rule| Step { rule, done: false, came_to: Vec::new(), failed: None };
        Reaction {
            steps: matched.into_iter().map(step).collect(),
            passed,
            rules,
            guards: guards.clone(),
            at: 0,
            blocks: Vec::new().into_iter(),
            under_way: None,
            tries_in_place: 0,
        }
    }

    pub fn passed(&self) -> &Arc<Passed> {
        &self.passed
    }

    /// The snapshot that the event matched: it keeps it, whatever is loaded meanwhile.
    pub fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// Takes what happened, and says what is next.
    pub fn step(&mut self, input: Input, state: &mut GuardState, now: UnixMillis) -> Vec<Command> {
        let mut commands = Vec::new();
        match input {
            Input::Begin => {
                self.at = 0;
                for step in &mut self.steps {
                    step.came_to.clear();
                    step.failed = None;
                }
                if self.passed.deliveries > DELIVERIES_MAX {
                    self.give_up(state, now, &mut commands);
                } else {
                    self.go_on(state, now, &mut commands);
                }
            }
            Input::Rendered(rendered) => self.rendered(rendered, state, now, &mut commands),
            Input::Executed(executed) => self.executed(executed, state, now, &mut commands),
        }
        commands
    }

    fn reference(&self, step: &Step) -> Arc<str> {
        self.rules.rule(step.rule).map_or_else(|| "".into(), |rule| rule.reference.clone())
    }

    /// The next rule that is not done, or the end.
    fn go_on(&mut self, state: &mut GuardState, now: UnixMillis, commands: &mut Vec<Command>) {
        while let Some(step) = self.steps.get(self.at) {
            if step.done {
                self.at += 1;
                continue;
            }
            let place = step.rule;
            let Some(rule) = self.rules.rule(place) else {
                self.at += 1;
                continue;
            };
            let fire = self.fire(&rule.reference, rule.throttle);
            let Some(hold) = state.holds(&fire, now) else {
                commands.push(Command::Render { rule: place });
                return;
            };
            let (decision, why) = match hold {
                Hold::Throttled(rest) => (
                    Decision::Throttled,
                    format!("it rests for {} for {}s more", self.passed.origin, rest.as_secs().max(1)),
                ),
                Hold::BreakerOpen(until) => (
                    Decision::BreakerOpen,
                    format!("it fired too often; for {}s more", until.since(now).as_secs().max(1)),
                ),
            };
            commands.push(Command::Note(Decided::new(&rule.reference, "", decision, why)));
            if let Some(step) = self.steps.get_mut(self.at) {
                step.done = true;
            }
            self.at += 1;
        }
        self.settle(state, now, commands);
    }

    fn fire<'a>(&'a self, rule: &'a Arc<str>, throttle: Option<Duration>) -> Fire<'a> {
        Fire { rule, origin: &self.passed.origin, place: self.passed.place(), throttle }
    }

    fn rendered(
        &mut self,
        rendered: Result<Node, Vec<String>>,
        state: &mut GuardState,
        now: UnixMillis,
        commands: &mut Vec<Command>,
    ) {
        let read =
            rendered.map_err(|problems| (Decision::RenderError, problems.join("\n"))).and_then(|node| {
                actions::read(&node).map_err(|found| (Decision::ValidateError, sentences(&found)))
            });
        match read {
            Ok(blocks) if blocks.is_empty() => self.decide("", Decision::Nothing, String::new(), commands),
            Ok(blocks) => {
                self.blocks = blocks.into_iter();
                return self.next_block(state, now, commands);
            }
            Err((decision, why)) => self.decide("", decision, why, commands),
        }
        self.rule_ended(state, now, commands);
    }

    /// The next block of the rule, or its end.
    fn next_block(&mut self, state: &mut GuardState, now: UnixMillis, commands: &mut Vec<Command>) {
        while let Some(block) = self.blocks.next() {
            if let Some(why) = self.refusal(&block.action) {
                self.decide(&block.id, Decision::Refused, why, commands);
                continue;
            }
            let Some(step) = self.steps.get(self.at) else { return };
            self.under_way = Some(block.id.clone());
            commands.push(Command::Execute { rule: step.rule, block });
            return;
        }
        self.rule_ended(state, now, commands);
    }

    /// Why this event may not do that, whatever the fleet says.
    fn refusal(&self, action: &Action) -> Option<String> {
        match action {
            Action::Send { .. } if !self.guards.chaining => {
                Some("rules may not send events: `reactor.chaining` is off".into())
            }
            Action::Send { tag, .. } => {
                let depth = self.passed.event.depth.saturating_add(1);
                let max = self.guards.max_chain_depth;
                self.guards
                    .is_too_deep(depth)
                    .then(|| format!("the event {tag} would be {depth} deep, of at most {max}: a loop?"))
            }
            Action::Enroll(enroll) if self.passed.origin != Origin::Master => {
                let word = enroll.verb.as_str();
                Some(format!("{word} answers only to events of `_master`, not of `{}`", self.passed.origin))
            }
            Action::Enroll(_) | Action::Dispatch(_) | Action::Log { .. } => None,
        }
    }

    fn executed(
        &mut self,
        executed: Executed,
        state: &mut GuardState,
        now: UnixMillis,
        commands: &mut Vec<Command>,
    ) {
        let Some(block) = self.under_way.take() else { return };
        match executed {
            Executed::Done(decided) => {
                if let Some(step) = self.steps.get_mut(self.at) {
                    step.came_to.push(decided.decision);
                }
                commands.push(Command::Note(*decided));
                self.next_block(state, now, commands);
            }
            Executed::Transient(why) => {
                if let Some(step) = self.steps.get_mut(self.at) {
                    step.failed = Some((block, why));
                }
                self.blocks = Vec::new().into_iter();
                self.at += 1;
                self.go_on(state, now, commands);
            }
        }
    }

    fn decide(&mut self, block: &str, decision: Decision, why: String, commands: &mut Vec<Command>) {
        let Some(step) = self.steps.get_mut(self.at) else { return };
        step.came_to.push(decision);
        let rule = self.rules.rule(step.rule).map_or_else(|| "".into(), |rule| rule.reference.clone());
        commands.push(Command::Note(Decided::new(&rule, block, decision, why)));
    }

    /// All blocks of the rule are done or never will be.
    fn rule_ended(&mut self, state: &mut GuardState, now: UnixMillis, commands: &mut Vec<Command>) {
        self.complete(self.at, state, now, commands);
        self.at += 1;
        self.go_on(state, now, commands);
    }

    fn complete(&mut self, at: usize, state: &mut GuardState, now: UnixMillis, commands: &mut Vec<Command>) {
        let Some(step) = self.steps.get_mut(at) else { return };
        step.done = true;
        let acted = step.came_to.iter().any(|decision| *decision != Decision::Nothing);
        let anew = step.came_to.iter().any(|decision| decision.is_fire());
        let Some(rule) = self.steps.get(at).and_then(|step| self.rules.rule(step.rule)) else { return };
        if acted && state.fired(&self.fire(&rule.reference, rule.throttle), anew, now) {
            commands.push(Command::BreakerOpened { rule: rule.reference.clone() });
        }
    }

    fn settle(&mut self, state: &mut GuardState, now: UnixMillis, commands: &mut Vec<Command>) {
        if self.steps.iter().all(|step| step.done) {
            return commands.push(Command::Settle(Settled::Done));
        }
        if may_be_handed_back(self.passed.deliveries) {
            return commands.push(Command::Settle(Settled::Again(AGAIN_AFTER)));
        }
        self.tries_in_place += 1;
        if self.tries_in_place < TRIES_IN_PLACE {
            return commands.push(Command::Settle(Settled::InPlace(AGAIN_AFTER)));
        }
        self.give_up(state, now, commands);
    }

    /// What is not done never will be, and is told so.
    fn give_up(&mut self, state: &mut GuardState, now: UnixMillis, commands: &mut Vec<Command>) {
        for at in 0..self.steps.len() {
            let Some(step) = self.steps.get_mut(at).filter(|step| !step.done) else { continue };
            let nobody = || (String::new(), "nobody who worked on it came to its end".to_string());
            let (block, why) = step.failed.take().unwrap_or_else(nobody);
            step.came_to.push(Decision::Exhausted);
            let Some(step) = self.steps.get(at) else { continue };
            let why = format!("given up after {} tries: {why}", self.tries());
            let decided = Decided::new(&self.reference(step), &block, Decision::Exhausted, why);
            commands.push(Command::Note(decided));
            self.complete(at, state, now, commands);
        }
        commands.push(Command::Settle(Settled::Done));
    }

    fn tries(&self) -> u64 {
        self.passed.deliveries.saturating_sub(1).saturating_add(u64::from(self.tries_in_place))
    }

    /// Why rules could not be completed in the last pass, for people.
    pub fn failures(&self) -> impl Iterator<Item = (Arc<str>, &str)> {
        let failed = self.steps.iter().filter_map(|step| Some((step, step.failed.as_ref()?)));
        failed.map(|(step, (_, why))| (self.reference(step), why.as_str()))
    }
}

/// Whether an event that was given so often may be given back for a while, to whoever takes it next.
pub fn may_be_handed_back(deliveries: u64) -> bool {
    deliveries.saturating_add(1) < DELIVERIES_HANDED
}

/// Problems without their places, in one text. The event decides what was rendered, so there may be no place in the file.
fn sentences(found: &[Diagnostic]) -> String {
    let sentence = |one: &Diagnostic| {
        let place = one.span.map_or_else(String::new, |span| format!("line {}: ", span.line));
        match &one.hint {
            Some(hint) => format!("{place}{}; {hint}", one.message),
            None => format!("{place}{}", one.message),
        }
    };
    found.iter().map(sentence).collect::<Vec<_>>().join("\n")
}
