//! The full name of a state: `module.function:id`.

use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// `file.managed:/etc/hosts`: the kind before the first colon, the id after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateName {
    full: Arc<str>,
    colon: u32,
}

impl StateName {
    pub fn new(kind: &str, id: &str) -> StateName {
        StateName { full: format!("{kind}:{id}").into(), colon: kind.len() as u32 }
    }

    /// Splits at the first colon; `None` where there is none.
    pub fn parse(full: &str) -> Option<StateName> {
        full.find(':').map(|colon| StateName { full: full.into(), colon: colon as u32 })
    }

    /// `file.managed`
    pub fn kind(&self) -> &str {
        &self.full[..self.colon as usize]
    }

    /// `/etc/hosts`
    pub fn id(&self) -> &str {
        &self.full[self.colon as usize + 1..]
    }

    pub fn as_str(&self) -> &str {
        &self.full
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.full)
    }
}

impl Serialize for StateName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-1")]
    fn s1_the_full_name_is_kind_colon_id_and_the_id_may_hold_colons() {
        let name = StateName::new("cmd.run", "echo a:b");
        assert_eq!((name.kind(), name.id(), name.as_str()), ("cmd.run", "echo a:b", "cmd.run:echo a:b"));
        assert_eq!(StateName::parse("cmd.run:echo a:b"), Some(name));
        assert_eq!(StateName::parse("no colon"), None);
    }
}
