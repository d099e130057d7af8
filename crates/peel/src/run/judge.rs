//! Whether this machine does what it is asked: its own policy, and the rights of who asks past the masters (I-8, I-14).

use super::actor::Actor;
use crate::policy::{InForce, PolicyFile};
use serde_json::{Map, Value};
use zester_converge::functions::acting::ACTING;
use zester_health::State;
use zester_identity::limits::CLOCK_TOLERANCE;
use zester_identity::{Principal, Role};
use zester_jobs::peel::Terms;
use zester_policy::{Asker, Call, Judged, LocalPolicy, Rights, Wanted, covers};
use zester_wire::{DispatchRequest, ExecRequest, Subject, UnixMillis, returns::BY_POLICY};

/// The line of `readyz`.
const HEALTH: &str = "policy";

/// An operator whose own word stands behind a request, and until when that counts.
struct Behind {
    who: Principal,
    until: UnixMillis,
}

impl Actor {
    /// Takes up the policy of this machine, and says at the start what is in force.
    pub(super) fn begin_policy(&mut self, file: PolicyFile) {
        self.policy = Some(file);
        self.look_at_policy();
    }

    /// Reads it again if it is another.
    pub(super) fn look_at_policy(&mut self) {
        let Some(file) = &mut self.policy else { return };
        if !file.look() {
            return;
        }
        let path = file.path().display();
        match file.in_force() {
            InForce::None => {}
            InForce::Policy(_) => {
                tracing::info!("the policy of {path} is in force; no master can override it");
                self.gauges.health().set(HEALTH, State::Up);
            }
            InForce::Unreadable(why) => {
                tracing::error!("the policy cannot be read, and only what is harmless is answered: {why}");
                let state = format!("it cannot be read, and only what is harmless is answered: {why}");
                self.gauges.health().set(HEALTH, State::Degraded(state));
            }
        }
    }

    /// Whether the facts of this machine must be known before a request can be judged.
    pub(super) fn judging_needs_facts(&self, principal: Option<&Principal>) -> bool {
        let wants_operators = match self.policy.as_ref().map(PolicyFile::in_force) {
            Some(InForce::Policy(policy)) => policy.wants_operators(),
            _ => false,
        };
        let is_operator = principal.is_some_and(|who| who.role == Role::Operator);
        self.presence.facts.is_none() && (is_operator || (wants_operators && principal.is_some()))
    }

    /// On which terms a request is taken.
    pub(super) fn terms(&mut self, request: &ExecRequest, principal: Option<&Principal>) -> Terms {
        self.look_at_policy();
        let call = Call::from(request);
        let by_role = principal
            .filter(|who| who.role == Role::Operator)
            .and_then(|who| self.role_refuses(who, call, true).map(|why| format!("refused: {why}")));
        let mut terms = Terms { refused: by_role, once_until: None };
        if terms.refused.is_none() {
            terms = match self.policy.as_ref().map(PolicyFile::in_force) {
                None | Some(InForce::None) => Terms::default(),
                Some(InForce::Unreadable(_)) if call.is_harmless() => Terms::default(),
                Some(InForce::Unreadable(why)) => {
                    let refused = format!("{BY_POLICY}, which cannot be read: {why}");
                    Terms { refused: Some(refused), once_until: None }
                }
                Some(InForce::Policy(policy)) => self.judged(policy, request, principal),
            };
        }
        if let Some(why) = &terms.refused {
            self.gauges.denied();
            let who = principal.map_or_else(|| "nobody".to_string(), ToString::to_string);
            tracing::warn!(jid = %request.jid, function = request.function, who, "{why}");
        }
        terms
    }

    fn judged(&self, policy: &LocalPolicy, request: &ExecRequest, principal: Option<&Principal>) -> Terms {
        let behind = match principal {
            Some(who) if policy.wants_operators() && who.role == Role::Master => self.behind(request),
            _ => Err("its master brought none along".to_string()),
        };
        let operator = behind.as_ref().map(|behind| behind.who.name.as_str()).map_err(String::clone);
        let asker = match principal {
            None => Asker::Unproven { direct: request.direct },
            Some(who) if who.role == Role::Master => {
                Asker::Master { name: &who.name, key: &who.key, operator }
            }
            Some(who) => Asker::Direct { operator: &who.name },
        };
        match policy.judge(&asker, &Call::from(request), kind_of(&request.function), self.link.now()) {
            Judged::Refused(refused) => Terms { refused: Some(refused.to_string()), once_until: None },
            Judged::Allowed(_) => {
                let once_until = behind.ok().map(|behind| behind.until);
                Terms { refused: None, once_until: once_until.filter(|_| !request.direct) }
            }
        }
    }

    /// The operator whose own request a master brought along, if it is one for this very peel, about these very words, and still
    /// counts; or why not.
    fn behind(&self, request: &ExecRequest) -> Result<Behind, String> {
        if request.request.is_empty() {
            return Err("its master brought no request of one along".into());
        }
        let opened = self.link.try_open::<DispatchRequest>(&Subject::Dispatch, request.request.as_slice());
        let opened = opened
            .map_err(|error| format!("the request that its master brought along does not count: {error}"))?;
        let Some(who) = opened.principal else { return Err("nobody signs here".into()) };
        let nothing = Value::Object(Map::new());
        let facts = self.presence.facts.as_ref().unwrap_or(&nothing);
        covers(&opened.message, request, &self.setup.id, facts).map_err(|uncovered| uncovered.to_string())?;
        let timeout = match opened.message.timeout {
            unsaid if unsaid.is_zero() => zester_wire::job::TIMEOUT_DEFAULT,
            timeout => timeout,
        };
        let until = opened.signed.plus(timeout).plus(CLOCK_TOLERANCE);
        if self.link.now() > until {
            return Err(format!("{} signed it too long ago", who.name));
        }
        if who.role == Role::Operator
            && let Some(why) = self.role_refuses(&who, Call::from(request), false)
        {
            return Err(why);
        }
        Ok(Behind { who, until })
    }

    /// What the roles of an operator say against it.
    fn role_refuses(&self, who: &Principal, call: Call<'_>, direct: bool) -> Option<String> {
        let trust = self.link.trust()?;
        let nothing = Value::Object(Map::new());
        let facts = self.presence.facts.as_ref().unwrap_or(&nothing);
        let rights = Rights::new(&trust.roles());
        let verdict =
            rights.judge(&who.name, &Wanted::Call { call, direct }, Some((self.setup.id.as_str(), facts)));
        let line = verdict.by.map_or_else(String::new, |(_, line)| format!(" ({line})"));
        (!verdict.allowed).then(|| format!("{}{line}", verdict.why))
    }

    /// Why an entry of the schedule that masters publish is not run; one that stands in a file of this machine is its owner's.
    pub(super) fn schedule_refused(&mut self, request: &ExecRequest) -> Option<String> {
        self.look_at_policy();
        let call = Call::from(request);
        let why = match self.policy.as_ref().map(PolicyFile::in_force)? {
            InForce::None => return None,
            InForce::Unreadable(_) if call.is_harmless() => return None,
            InForce::Unreadable(why) => format!("{BY_POLICY}, which cannot be read: {why}"),
            InForce::Policy(policy) => {
                match policy.judge(&Asker::Published, &call, kind_of(&request.function), self.link.now()) {
                    Judged::Allowed(_) => return None,
                    Judged::Refused(refused) => refused.to_string(),
                }
            }
        };
        self.gauges.denied();
        tracing::warn!(jid = %request.jid, function = request.function, "an entry of the schedule: {why}");
        Some(why)
    }
}

/// The kind of state that a function is another name of.
pub fn kind_of(function: &str) -> Option<&'static str> {
    ACTING.iter().find(|acting| acting.name == function).map(|acting| acting.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-14")]
    fn i14_roles_know_every_other_name_of_a_kind() {
        for acting in ACTING.iter().filter(|acting| acting.name != acting.kind) {
            assert_eq!(zester_policy::kind_of(acting.name), Some(acting.kind), "{}", acting.name);
        }
    }
}
