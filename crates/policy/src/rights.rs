//! What operators may do (I-14): roles out of the signed roster. Nothing is allowed that no line allows, and a line that denies wins
//! over any that allows, so the order of lines says nothing.

use crate::call::Call;
use crate::words::Pattern;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use zester_model::target::{Subject, Target};
use zester_wire::{OperatorRole, RoleEffect, RoleRule};

/// What an operator asks of masters besides jobs. Looking needs no verb.
pub const VERBS: &[&str] = &["kill", "retry", "publish", "forget", "event", "enroll", "breaker_close"];
/// What earlier releases took for one. Nobody ever asked for it: the server lets every operator read every store.
pub const NO_VERB: &str = "audit";

/// One thing that an operator wants, of one peel or of none.
#[derive(Copy, Clone, Debug)]
pub enum Wanted<'a> {
    Call { call: Call<'a>, direct: bool },
    Verb(&'a str),
}

impl Wanted<'_> {
    fn shown(&self) -> String {
        match self {
            Wanted::Call { call, direct } => {
                let direct = if *direct { " --direct" } else { "" };
                format!("{}{direct}", call.function)
            }
            Wanted::Verb(verb) => (*verb).to_string(),
        }
    }
}

/// What was decided, and by which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleVerdict {
    pub allowed: bool,
    /// The role and the place of its line; none where no line speaks of it.
    pub by: Option<(String, String)>,
    /// In a sentence.
    pub why: String,
}

struct Rule {
    role: String,
    wire: RoleRule,
    functions: Vec<Pattern>,
    /// Some pattern cannot be read here, as one of a later release.
    unread: bool,
    /// None: it cannot be read here either.
    targets: Option<Target>,
}

/// All rules of a roster.
pub struct Rights {
    rules: Vec<(BTreeSet<String>, Rule)>,
}

impl Rights {
    pub fn new(roles: &[OperatorRole]) -> Rights {
        let mut rules = Vec::new();
        for role in roles {
            let members: BTreeSet<String> = role.members.iter().map(ToString::to_string).collect();
            for rule in &role.rules {
                let patterns = rule.functions.iter();
                let functions: Vec<Pattern> =
                    patterns.filter_map(|text| Pattern::parse(text, &rule.line)).collect();
                let unread = functions.len() < rule.functions.len();
                let targets = Target::parse(if rule.targets.is_empty() { "*" } else { &rule.targets }).ok();
                let (role, wire) = (role.name.to_string(), rule.clone());
                rules.push((members.clone(), Rule { role, wire, functions, unread, targets }));
            }
        }
        Rights { rules }
    }

    /// The roles that somebody has.
    pub fn roles_of(&self, operator: &str) -> BTreeSet<&str> {
        let own = self.rules.iter().filter(|(members, _)| members.contains(operator));
        own.map(|(_, rule)| rule.role.as_str()).collect()
    }

    /// Whether an operator may do this to one peel. `facts` of a peel that nobody knows are empty.
    pub fn judge(&self, operator: &str, wanted: &Wanted<'_>, peel: Option<(&str, &Value)>) -> RoleVerdict {
        let own = self.rules.iter().filter(|(members, _)| members.contains(operator)).map(|(_, rule)| rule);
        let mut allowed: Option<&Rule> = None;
        let shown = wanted.shown();
        let to = peel.map_or_else(String::new, |(id, _)| format!(" on {id}"));
        for rule in own {
            match rule.wire.effect {
                RoleEffect::Deny | RoleEffect::Unknown if rule.denies(wanted, peel) => {
                    let why = format!("{operator} may not {shown}{to}: role {} denies it", rule.role);
                    return RoleVerdict { allowed: false, by: Some(rule.place()), why };
                }
                RoleEffect::Allow if allowed.is_none() && rule.allows(wanted, peel) => allowed = Some(rule),
                _ => {}
            }
        }
        match allowed {
            Some(rule) => {
                let why = format!("{operator} may {shown}{to}: role {} allows it", rule.role);
                RoleVerdict { allowed: true, by: Some(rule.place()), why }
            }
            None => {
                let roles = self.roles_of(operator);
                let roles = match roles.is_empty() {
                    true => "it has no role".to_string(),
                    false => {
                        format!("no line of {} allows it", roles.into_iter().collect::<Vec<_>>().join(", "))
                    }
                };
                RoleVerdict {
                    allowed: false,
                    by: None,
                    why: format!("{operator} may not {shown}{to}: {roles}"),
                }
            }
        }
    }
}

impl Rule {
    fn place(&self) -> (String, String) {
        (self.role.clone(), self.wire.line.clone())
    }

    /// What cannot be read is read as if it denied.
    fn denies(&self, wanted: &Wanted<'_>, peel: Option<(&str, &Value)>) -> bool {
        if self.wire.effect == RoleEffect::Unknown || self.unread {
            return true;
        }
        let is_meant = match wanted {
            Wanted::Call { call, .. } => {
                call.all_names().iter().any(|name| self.functions.iter().any(|pattern| pattern.matches(name)))
                    && self.environment(call, true)
            }
            Wanted::Verb(verb) => self.wire.verbs.iter().any(|one| one == verb),
        };
        is_meant && self.targets.as_ref().is_none_or(|target| peel.is_none_or(|peel| meets(target, peel)))
    }

    fn allows(&self, wanted: &Wanted<'_>, peel: Option<(&str, &Value)>) -> bool {
        let is_meant = match wanted {
            Wanted::Call { call, direct } => {
                let names = call.names();
                let all = names.iter().all(|name| self.functions.iter().any(|pattern| pattern.matches(name)));
                let dry = call.test && !call.args.contains_key("test") && call.runs_in_dry_run().is_none();
                all && self.environment(call, false)
                    && (!self.wire.test_only || dry || call.is_harmless())
                    && (!*direct || self.wire.direct)
            }
            Wanted::Verb(verb) => self.wire.verbs.iter().any(|one| one == verb),
        };
        // What is about no peel in particular, such as publishing, is about all of them.
        let unbounded = self.wire.targets.is_empty();
        is_meant
            && self.targets.as_ref().is_some_and(|target| peel.map_or(unbounded, |peel| meets(target, peel)))
    }

    /// A call that names no environment leaves it to the machine: it is in none of a list, and may be in any of one that denies.
    fn environment(&self, call: &Call<'_>, unnamed: bool) -> bool {
        let listed = &self.wire.environments;
        listed.is_empty() || call.environment().map_or(unnamed, |name| listed.iter().any(|one| one == name))
    }
}

fn meets(target: &Target, (id, facts): (&str, &Value)) -> bool {
    let settings = Value::Object(Map::new());
    target.matches(&Subject { id, facts, settings: &settings })
}
