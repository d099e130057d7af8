//! The policy of one machine: what it does for others, whoever asks. No master can override it.

use crate::call::Call;
use crate::window::Window;
use crate::words::Pattern;
use std::fmt;
use zester_schedule::shown;
use zester_wire::UnixMillis;
use zester_wire::returns::BY_POLICY;

/// A list, and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) at: String,
}

/// Which operators count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorsWanted {
    /// Whoever the roster names, within the rights that it gives.
    Any,
    /// These of them.
    Named(Vec<String>),
}

#[derive(Clone, Debug, Default)]
pub struct LocalPolicy {
    pub(crate) allow: Option<At<Vec<Pattern>>>,
    pub(crate) deny: Vec<Pattern>,
    /// No command that a caller hands over.
    pub(crate) published_commands: Option<String>,
    pub(crate) read_only: Option<String>,
    pub(crate) windows: Option<At<Vec<Window>>>,
    pub(crate) operators: Option<At<OperatorsWanted>>,
    /// Names or public keys.
    pub(crate) masters: Option<At<Vec<String>>>,
    /// Calls past the masters are refused.
    pub(crate) no_direct: Option<String>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub enum Asker<'a> {
    /// A master; and the operator whose own request it brought along, or why there is none that counts.
    Master { name: &'a str, key: &'a str, operator: Result<&'a str, String> },
    /// An operator, past the masters.
    Direct { operator: &'a str },
    /// Something that masters publish: an entry of the schedule in the settings.
    Published,
    /// Nobody signs here, so nobody can prove anything.
    Unproven { direct: bool },
}

/// Why a machine does not do it, and the line that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `/etc/zester/policy.yaml:3:5`
    pub at: String,
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{BY_POLICY}: {} ({})", self.why, self.at)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// With what allowed it, where a line did.
    Allowed(Option<String>),
    Refused(Refused),
}

impl LocalPolicy {
    /// Whether a request must bring its operator along.
    pub fn wants_operators(&self) -> bool {
        self.operators.is_some()
    }

    /// What each line says, in words, with its place.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        if let Some(At { value, at }) = &self.allow {
            let all: Vec<&str> = value.iter().map(|pattern| pattern.text.as_str()).collect();
            lines.push((format!("allows {} and no other function", all.join(", ")), at.clone()));
        }
        lines.extend(self.deny.iter().map(|one| (format!("denies {}", one.text), one.at.clone())));
        let mut fixed = |at: &Option<String>, words: &str| {
            lines.extend(at.as_ref().map(|at| (words.to_string(), at.clone())));
        };
        fixed(&self.published_commands, "runs commands of published states only, none of a caller");
        fixed(&self.read_only, "changes nothing: read-only");
        fixed(&self.no_direct, "takes no calls past the masters");
        if let Some(At { value, at }) = &self.windows {
            for window in value {
                let minutes = window.lasts.as_secs().div_ceil(60);
                let when = format!("{} ({}), for {minutes} min", window.times.text, window.times.zone);
                lines.push((format!("changes only from {when}"), at.clone()));
            }
        }
        if let Some(At { value, at }) = &self.operators {
            let who = match value {
                OperatorsWanted::Any => "an operator".to_string(),
                OperatorsWanted::Named(names) => names.join(" or "),
            };
            lines.push((format!("acts only on the word of {who}"), at.clone()));
        }
        if let Some(At { value, at }) = &self.masters {
            lines.push((format!("takes work only from {}", value.join(", ")), at.clone()));
        }
        lines
    }

    /// A master that it takes work from, where it does not take any from all.
    pub fn some_master(&self) -> Option<&str> {
        self.masters.as_ref()?.value.first().map(String::as_str)
    }

    /// An operator on whose word it acts, where not every one will do.
    pub fn some_operator(&self) -> Option<&str> {
        match &self.operators.as_ref()?.value {
            OperatorsWanted::Any => None,
            OperatorsWanted::Named(names) => names.first().map(String::as_str),
        }
    }

    /// Whether this machine does that. `kind`: the kind of state that the function is another name of.
    pub fn judge(&self, asker: &Asker<'_>, call: &Call<'_>, kind: Option<&str>, now: UnixMillis) -> Judged {
        let judged = self
            .asker(asker, call)
            .and_then(|()| self.changes(call, now))
            .and_then(|()| self.function(call, kind));
        match judged {
            Ok(allowed) => Judged::Allowed(allowed),
            Err(refused) => Judged::Refused(refused),
        }
    }

    fn asker(&self, asker: &Asker<'_>, call: &Call<'_>) -> Result<(), Refused> {
        let is_direct = matches!(asker, Asker::Direct { .. } | Asker::Unproven { direct: true });
        if let Some(at) = self.no_direct.as_ref().filter(|_| is_direct) {
            return refused(at, "it takes no calls past the masters".into());
        }
        if let Some(At { value, at }) = &self.masters {
            match asker {
                Asker::Master { name, key, .. } if !value.iter().any(|one| one == name || one == key) => {
                    return refused(at, format!("master {name} is none of those that it takes work from"));
                }
                Asker::Unproven { direct: false } => {
                    return refused(
                        at,
                        "it takes work from known masters only, and nobody signs here".into(),
                    );
                }
                _ => {}
            }
        }
        let Some(At { value, at }) = self.operators.as_ref().filter(|_| !call.is_harmless()) else {
            return Ok(());
        };
        let operator = match asker {
            Asker::Master { operator, .. } => operator.clone(),
            Asker::Direct { operator } => Ok(*operator),
            Asker::Published => {
                Err("the settings of the masters schedule it, and no operator signed that".into())
            }
            Asker::Unproven { .. } => Err("nobody signs here".into()),
        };
        match (operator, value) {
            (Err(why), _) => refused(at, format!("an operator must ask for it: {why}")),
            (Ok(name), OperatorsWanted::Named(names)) if !names.iter().any(|one| one == name) => {
                refused(at, format!("{name} is none of the operators that may ask for it"))
            }
            (Ok(_), _) => Ok(()),
        }
    }

    fn changes(&self, call: &Call<'_>, now: UnixMillis) -> Result<(), Refused> {
        let function = call.function;
        if let (Some(at), Some(word)) = (&self.published_commands, call.hands_over_command()) {
            let by = if word == function { String::new() } else { format!(" (by `{word}`)") };
            return refused(at, format!("commands come from published states only, not from a caller{by}"));
        }
        if call.only_looks() {
            return Ok(());
        }
        if let Some(at) = &self.read_only {
            return refused(at, format!("it is read-only, and {function} may change it"));
        }
        let Some(At { value: windows, at }) = &self.windows else { return Ok(()) };
        if windows.iter().any(|window| window.is_open(now)) {
            return Ok(());
        }
        let next = windows.iter().filter_map(|window| window.next(now)).min();
        let next = next.map_or_else(String::new, |next| format!("; the next begins {}", shown(next)));
        refused(at, format!("{function} may change it, and no maintenance window is open{next}"))
    }

    fn function(&self, call: &Call<'_>, kind: Option<&str>) -> Result<Option<String>, Refused> {
        let mut names = call.names();
        names.extend(kind.map(str::to_string));
        for name in names.union(&call.all_names()) {
            if let Some(denied) = self.deny.iter().find(|pattern| pattern.matches(name)) {
                return refused(&denied.at, format!("{name} is denied by `{}`", denied.text));
            }
        }
        let Some(At { value: allow, at }) = &self.allow else { return Ok(None) };
        let mut allowed = None;
        for name in &names {
            match allow.iter().find(|pattern| pattern.matches(name)) {
                Some(pattern) => allowed = Some(format!("`{}` ({})", pattern.text, pattern.at)),
                // Another name of what is allowed needs no line of its own.
                None if Some(name.as_str()) == kind => {}
                None => return refused(at, format!("{name} is not among the functions that it allows")),
            }
        }
        Ok(allowed)
    }
}

fn refused<T>(at: &str, why: String) -> Result<T, Refused> {
    Err(Refused { at: at.to_string(), why })
}
