//! `startup_states`: what a peel brings about at its start, before anybody asks.

use serde_json::Value;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupStates {
    /// What the top file gives this machine.
    Highstate,
    /// These files.
    Sls(Vec<String>),
}

/// A function with its bare words.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionAsked {
    pub function: &'static str,
    pub words: Vec<Value>,
}

impl StartupStates {
    /// Reads the keys `startup_states` and `sls_list`, whose words are Salt's.
    pub fn read(word: Option<&str>, sls_list: &[String]) -> Result<Option<StartupStates>, String> {
        match (word, sls_list) {
            (None | Some("highstate" | "top"), [_, ..]) => {
                Err("sls_list is given, and startup_states is not `sls`; write startup_states: sls".into())
            }
            (None, []) => Ok(None),
            // Salt's `top` takes another top file; here there is one.
            (Some("highstate" | "top"), []) => Ok(Some(StartupStates::Highstate)),
            (Some("sls"), []) => {
                Err("startup_states: sls needs sls_list, the references to apply at the start".into())
            }
            (Some("sls"), list) => Ok(Some(StartupStates::Sls(list.to_vec()))),
            (Some(other), _) => Err(format!("startup_states: {other} is none of highstate, sls, top")),
        }
    }

    pub(super) fn function(&self) -> FunctionAsked {
        match self {
            StartupStates::Highstate => FunctionAsked { function: "state.highstate", words: Vec::new() },
            StartupStates::Sls(list) => FunctionAsked {
                function: "state.sls",
                words: list.iter().map(|reference| Value::from(reference.as_str())).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_salt() {
        let list = ["web".to_string(), "db".to_string()];
        assert_eq!(StartupStates::read(None, &[]), Ok(None));
        for word in ["highstate", "top"] {
            assert_eq!(StartupStates::read(Some(word), &[]), Ok(Some(StartupStates::Highstate)), "{word}");
        }
        assert_eq!(StartupStates::read(Some("sls"), &list), Ok(Some(StartupStates::Sls(list.to_vec()))));
        for (word, list, wanted) in [
            (Some("sls"), &[][..], "needs sls_list"),
            (None, &list, "startup_states is not `sls`"),
            (Some("highstate"), &list, "startup_states is not `sls`"),
            (Some("higstate"), &[], "none of highstate, sls, top"),
        ] {
            let told = StartupStates::read(word, list).unwrap_err();
            assert!(told.contains(wanted), "{told}");
        }
    }
}
