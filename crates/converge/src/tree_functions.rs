//! `state.*`: functions of whole trees, which are neither kinds of state nor execution functions.
//!
//! Their words are Salt's: references, also with commas between, `saltenv=` (or `env=`), `test=` where something runs.

use crate::call::Asked;
use crate::raw_arguments::{RawArguments, RawValue, truth};
use zester_model::suggest::did_you_mean;

/// One function, for the reference.
#[derive(Debug)]
pub struct TreeFunction {
    pub name: &'static str,
    /// One line, with the arguments.
    pub doc: &'static str,
}

/// Runs one kind of state, as calling that kind does.
pub const SINGLE: &str = "state.single";

/// Every function of trees.
pub const OF_TREES: &[TreeFunction] = &[
    TreeFunction {
        name: "state.apply",
        doc: "state.apply [REF…]: brings this machine to the states of these files; without REF the highstate",
    },
    TreeFunction {
        name: "state.graph",
        doc: "state.graph [REF…]: levels and edges of these states, or of the highstate",
    },
    TreeFunction {
        name: "state.highstate",
        doc: "state.highstate: applies what the top file gives this machine",
    },
    TreeFunction {
        name: "state.revert",
        doc: "state.revert [REF…]: undoes what apply did here; run=ID: that run, force=true: over what was changed since",
    },
    TreeFunction {
        name: "state.show_highstate",
        doc: "state.show_highstate: every state of the highstate, after templates, with its place; runs nothing",
    },
    TreeFunction {
        name: "state.show_sls",
        doc: "state.show_sls REF…: every state of these files, after templates, with its place; runs nothing",
    },
    TreeFunction {
        name: "state.show_top",
        doc: "state.show_top: which references the top file gives this machine, in each environment; runs nothing",
    },
    TreeFunction {
        name: SINGLE, doc: "state.single MOD.FN [ID] [k=v…]: one state, as calling MOD.FN does"
    },
    TreeFunction {
        name: "state.sls",
        doc: "state.sls REF…: brings this machine to the states of these files",
    },
    TreeFunction {
        name: "state.sls_id",
        doc: "state.sls_id ID REF…: of these files the states of one id, and what they require",
    },
];

/// Which states are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesAsked {
    /// None: the highstate.
    pub references: Vec<String>,
    /// None: the one that this machine has by default.
    pub environment: Option<String>,
    /// Of these the states of one id, and what they require.
    pub only: Option<String>,
}

/// The environment that words name, by Salt's word or by ours.
pub fn environment(words: &mut RawArguments) -> Result<Option<String>, String> {
    let mut given = [words.take("saltenv"), words.take("env")].concat();
    match (given.pop(), given.is_empty()) {
        (None, _) => Ok(None),
        (Some(_), false) => Err("the environment is given twice".into()),
        (Some(one), true) => match one.shown() {
            empty if empty.is_empty() => Err("the name of the environment is empty".into()),
            name => Ok(Some(name)),
        },
    }
}

/// Reads the words of any of them but `state.single`.
pub fn read(function: &str, mut words: RawArguments, test: bool) -> Result<Asked, String> {
    let environment = environment(&mut words).map_err(|why| format!("{function}: {why}"))?;
    let is_revert = function == "state.revert";
    let (run, force) = match is_revert {
        true => (words.take("run").pop(), words.take("force")),
        false => (None, Vec::new()),
    };
    let mods = match function {
        "state.apply" | "state.sls" | "state.show_sls" | "state.sls_id" => words.take("mods"),
        _ => Vec::new(),
    };
    if let Some((key, value)) = words.named.first() {
        let key_value = format!("{key}={}", value.shown());
        return Err(match function {
            "state.revert" => format!(
                "{function} has no parameter `{key}` ({key_value}); it takes references, saltenv=, run= and force="
            ),
            "state.highstate" => format!("{function} takes saltenv= and test=; `{key_value}` is neither"),
            "state.apply" | "state.sls" | "state.sls_id" => {
                format!("{function} takes references, saltenv= and test=; `{key_value}` is none of them")
            }
            "state.show_top" | "state.show_highstate" => {
                format!("{function} takes saltenv=; `{key_value}` is not it")
            }
            _ => format!("{function} takes references and saltenv=; `{key_value}` is neither"),
        });
    }
    let mut bare = words.positional.iter().map(RawValue::shown);
    let only = match function {
        "state.sls_id" => Some(bare.next().filter(|id| !id.is_empty()).ok_or(SLS_ID)?),
        _ => None,
    };
    let references: Vec<String> = bare.chain(mods.iter().map(mods_of)).flat_map(apart).collect();
    let files = FilesAsked { references, environment, only };
    let none = files.references.is_empty();
    match function {
        "state.highstate" | "state.show_highstate" | "state.show_top" if !none => {
            let other = if function == "state.highstate" { "state.apply" } else { "state.show_sls" };
            let all = files.references.join(" ");
            Err(format!("{function} takes no reference; `zester … {other} {all}` does"))
        }
        "state.sls_id" if none => Err(SLS_ID.to_string()),
        "state.sls" if none => {
            Err("state.sls: the references are missing; without any, `state.highstate` runs what the top file gives".into())
        }
        "state.show_sls" if none => {
            Err("state.show_sls: the references are missing; `state.show_highstate` shows what the top file gives".into())
        }
        "state.show_top" => Ok(Asked::ShowTop { environment: files.environment }),
        "state.show_sls" | "state.show_highstate" => Ok(Asked::ShowStates(files)),
        "state.graph" => Ok(Asked::Graph(files)),
        "state.revert" if test => {
            Err("state.revert has no dry run; `zester status` lists what it could undo".to_string())
        }
        "state.revert" => {
            let force = match force.last() {
                None => false,
                Some(word) => {
                    truth(word).ok_or_else(|| format!("force={} is neither true nor false", word.shown()))?
                }
            };
            Ok(Asked::Revert { files, run: run.map(|run| run.shown()), force })
        }
        _ => Ok(Asked::Apply { files, test }),
    }
}

const SLS_ID: &str =
    "state.sls_id takes the id of a state and the references of its files: state.sls_id nginx web";

/// `mods=web,db`, or the list that somebody sent.
fn mods_of(value: &RawValue) -> String {
    match value {
        RawValue::Value(serde_json::Value::Array(items)) => {
            let text =
                |item: &serde_json::Value| item.as_str().map_or_else(|| item.to_string(), String::from);
            items.iter().map(text).collect::<Vec<_>>().join(",")
        }
        other => other.shown(),
    }
}

/// `web,db` are two references, as Salt reads them; a path may have a comma.
fn apart(word: String) -> Vec<String> {
    match word.contains('/') || !word.contains(',') {
        true => vec![word],
        false => word.split(',').filter(|part| !part.is_empty()).map(str::to_string).collect(),
    }
}

/// `state.single MOD.FN …` is `MOD.FN …`, where that is a kind of state.
pub fn single(mut words: RawArguments, test: bool) -> Result<Asked, String> {
    if words.positional.is_empty() {
        let named = words.take("fun");
        words.positional = named;
    }
    if words.positional.is_empty() {
        return Err(
            "state.single: the kind of state is missing: state.single file.managed /etc/motd content=hello"
                .into(),
        );
    }
    let kind = words.positional.remove(0).shown();
    match Asked::read(&kind, words, test)? {
        asked @ Asked::State { .. } => Ok(asked),
        Asked::Unknown => {
            let hint = did_you_mean(&kind, zester_resources::catalog().names());
            let hint = hint.unwrap_or("`zester doc` lists what there is".into());
            Err(format!("state.single: there is no kind of state `{kind}`; {hint}"))
        }
        _ => Err(format!("state.single runs one state, and `{kind}` is none; call {kind} itself")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn asked(function: &str, line: &[&str], test: bool) -> Result<Asked, String> {
        let words = line.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        Asked::read(function, RawArguments::parse(&words), test)
    }

    fn files(references: &[&str], environment: Option<&str>, only: Option<&str>) -> FilesAsked {
        let text = |word: &str| word.to_string();
        FilesAsked {
            references: references.iter().map(|word| text(word)).collect(),
            environment: environment.map(text),
            only: only.map(text),
        }
    }

    #[test]
    #[rule("C-12", "S-8")]
    fn c12_functions_of_trees_take_the_words_that_salt_takes() {
        for (function, line, wanted) in [
            ("state.apply", &[][..], files(&[], None, None)),
            ("state.apply", &["web", "db"], files(&["web", "db"], None, None)),
            ("state.apply", &["web,db", "saltenv=prod"], files(&["web", "db"], Some("prod"), None)),
            ("state.apply", &["mods=web,db"], files(&["web", "db"], None, None)),
            ("state.apply", &["a/x,y.zy"], files(&["a/x,y.zy"], None, None)),
            ("state.highstate", &["env=prod"], files(&[], Some("prod"), None)),
            ("state.sls", &["web"], files(&["web"], None, None)),
            ("state.sls_id", &["nginx", "web"], files(&["web"], None, Some("nginx"))),
        ] {
            for test in [false, true] {
                let Ok(Asked::Apply { files, test: is_test }) = asked(function, line, test) else {
                    panic!("{function} {line:?}")
                };
                assert_eq!((files, is_test), (wanted.clone(), test), "{function} {line:?}");
            }
        }
        let Ok(Asked::ShowStates(shown)) = asked("state.show_sls", &["web", "saltenv=prod"], true) else {
            panic!()
        };
        assert_eq!(shown, files(&["web"], Some("prod"), None));
        assert!(
            matches!(asked("state.show_highstate", &[], false), Ok(Asked::ShowStates(all)) if all == files(&[], None, None))
        );
        let top = asked("state.show_top", &["saltenv=prod"], false);
        assert!(matches!(top, Ok(Asked::ShowTop { environment: Some(name) }) if name == "prod"));
    }

    #[test]
    #[rule("C-12")]
    fn c12_no_word_of_a_function_of_trees_is_ignored() {
        for (function, line, wanted) in [
            ("state.sls", &[][..], "the references are missing"),
            ("state.show_sls", &["saltenv=prod"], "the references are missing"),
            ("state.sls_id", &["nginx"], "state.sls_id nginx web"),
            ("state.sls_id", &[], "state.sls_id nginx web"),
            ("state.show_top", &["web"], "state.show_top takes no reference"),
            ("state.show_top", &["queue=true"], "`queue=true` is not it"),
            ("state.show_highstate", &["web"], "`zester … state.show_sls web` does"),
            ("state.apply", &["saltenv=a", "env=b"], "the environment is given twice"),
            ("state.apply", &["saltenv="], "the name of the environment is empty"),
            ("state.apply", &["web", "concurrency=1"], "`concurrency=1` is none of them"),
            ("state.single", &[], "the kind of state is missing"),
            ("state.single", &["facts.items"], "`facts.items` is none; call facts.items itself"),
            ("state.single", &["state.apply", "web"], "`state.apply` is none"),
            ("state.single", &["file.manged", "/x"], "did you mean `file.managed`?"),
            ("state.single", &["file.managed", "/x", "/y"], "`/y` is a second one"),
        ] {
            let told = asked(function, line, false).unwrap_err();
            assert!(told.contains(wanted), "{function} {line:?}: {told}");
        }
    }

    #[test]
    #[rule("C-12", "S-45")]
    fn c12_a_single_state_is_what_calling_its_kind_is() {
        for line in [
            &["cmd.run", "LANG=C date"][..],
            &["file.managed", "/x", "content=1.10"],
            &["test.nop", "name=x"],
        ] {
            for (extra, flag, dry) in
                [(None, false, false), (None, true, true), (Some("test=True"), false, true)]
            {
                let words: Vec<&str> = line.iter().copied().chain(extra).collect();
                let (single, called) = (asked(SINGLE, &words, flag), asked(line[0], &words[1..], flag));
                let (Ok(Asked::State { kind, words, test }), Ok(Asked::State { words: same, .. })) =
                    (single, called)
                else {
                    panic!("{line:?}")
                };
                assert_eq!((kind.name, words, test), (line[0], same, dry));
            }
        }
        assert!(asked(SINGLE, &["test.nop", "x", "test=False"], true).is_err());
    }

    #[test]
    fn every_function_says_on_its_line_how_it_is_called() {
        for function in OF_TREES {
            let (call, _) = function.doc.split_once(": ").unwrap();
            assert_eq!(call.split(' ').next(), Some(function.name));
        }
        assert!(OF_TREES.is_sorted_by_key(|function| function.name));
    }
}
