//! The words of a call on the fleet, read into what a master or a peel is asked.

use crate::answer::Failure;
use crate::app::App;
use serde_json::Map;
use std::time::Duration;
use zester_client::{Client, FunctionCall};
use zester_converge::call::{self, Asked};
use zester_converge::raw_arguments::{RawArguments, RawValue};
use zester_converge::settings::Override;
use zester_converge::tree_functions::{self, OF_TREES};
use zester_link::Link;
use zester_model::catalog::Kind;
use zester_model::diagnostic::{Diagnostic, Kind as DiagnosticKind};
use zester_model::keywords;
use zester_model::source::{Sources, Span};
use zester_model::suggest::did_you_mean;
use zester_model::target::Target;
use zester_wire::job::TIMEOUT_DEFAULT;
use zester_wire::{DispatchRequest, PeelId, VERSION};

/// How long states may take when nobody says (J-4).
const APPLY_TIMEOUT: Duration = Duration::from_secs(5 * 60);
const HIGHSTATE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long it may take to find out whether some peel may know a function that we do not.
const VERSIONS_WAIT: Duration = Duration::from_secs(5);
/// How long it may take to find out which names nobody has: the call itself does not depend on it.
const UNKNOWN_WAIT: Duration = Duration::from_secs(3);
/// Unknown names that one notice says.
const UNKNOWN_NAMED: usize = 20;

/// Refuses what nobody can do, before every peel of the fleet says so. A peel of another release may know more than we
/// do, so then it is asked.
pub async fn check_words(
    app: &App,
    client: &Client,
    function: &str,
    mut words: RawArguments,
    test: bool,
) -> Result<(), Failure> {
    let given = Override::take(function, &mut words);
    let why = match given.and_then(|_| Asked::read(function, words, test)) {
        Ok(Asked::Unknown) => call::unknown(function),
        Ok(Asked::State { kind, words, .. }) => match mistyped(kind, &words) {
            Some(why) => why,
            None => return Ok(()),
        },
        Ok(_) => return Ok(()),
        Err(why) => why,
    };
    // Who cannot be asked now is asked for the work, and tells then what is wrong.
    let Ok(Ok(versions)) = tokio::time::timeout(VERSIONS_WAIT, client.versions()).await else {
        return Ok(());
    };
    if versions.is_empty() || versions.iter().any(|version| version != env!("CARGO_PKG_VERSION")) {
        app.output.notice(&format!("{why}; asking the peels all the same"));
        return Ok(());
    }
    Err(Failure::usage(why))
}

/// A parameter that the kind does not take and that is nearly one that it does. What is further off may be a word of states in
/// general, and is for the peel to judge.
fn mistyped(kind: &Kind, words: &RawArguments) -> Option<String> {
    let own =
        kind.parameters.iter().flat_map(|one| std::iter::once(one.name).chain(one.aliases.iter().copied()));
    let general = keywords::ATTRIBUTES.iter().map(|attribute| attribute.word);
    let general: Vec<&str> = general.chain(["names", "name"]).collect();
    let is_known = |key: &str| {
        kind.open
            || kind.parameter(key).is_some()
            || general.contains(&key)
            || keywords::requisite(key).is_some()
    };
    words.named.iter().filter(|(key, _)| !is_known(key)).find_map(|(key, _)| {
        let hint = did_you_mean(key, own.clone())?;
        Some(format!("{} has no parameter `{key}`; {hint}", kind.name))
    })
}

/// The words with the environment of `--env`, which is one of them for a function of state files.
pub fn with_environment(
    function: &str,
    mut words: RawArguments,
    environment: Option<&str>,
) -> Result<RawArguments, String> {
    let Some(environment) = environment else { return Ok(words) };
    if function == tree_functions::SINGLE || !OF_TREES.iter().any(|tree| tree.name == function) {
        return Err(format!("--env is for functions of state files, and {function} is none"));
    }
    if words.named.iter().any(|(key, _)| key == "saltenv" || key == "env") {
        return Err("the environment is given twice: --env, and saltenv=".into());
    }
    words.named.push(("saltenv".into(), RawValue::Letters(environment.into())));
    Ok(words)
}

/// Reads a target, or points at the character that makes it none, before anything is sent.
pub fn target(expression: &str) -> Result<Target, Failure> {
    Target::parse(expression).map_err(|error| {
        let mut sources = Sources::default();
        let file = sources.add("target", expression);
        let before = expression.get(..error.offset).unwrap_or(expression);
        let column = u32::try_from(before.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
        let span = Span::new(file, 1, column, 1);
        let diagnostic =
            Diagnostic::new(DiagnosticKind::Target, error.message).at(span).maybe_hint(error.hint);
        zester_converge::Error::Diagnostics { diagnostics: vec![diagnostic], sources: Box::new(sources) }
            .into()
    })
}

/// The ids in the lists of a target: whoever lists one believes that it exists.
pub fn listed(target: &Target) -> Vec<PeelId> {
    target.listed().into_iter().filter_map(|name| PeelId::parse(name).ok()).collect()
}

/// Which of these no peel has. Where that cannot be found out, none: whoever is asked for the work then says what is wrong.
pub async fn unknown(client: &Client, ids: Vec<PeelId>) -> Vec<PeelId> {
    if ids.is_empty() {
        return Vec::new();
    }
    let found = tokio::time::timeout(UNKNOWN_WAIT, client.unknown(ids)).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// Names that nobody has, before anything is awaited of them.
pub fn say_unknown(app: &App, unknown: &[PeelId]) {
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().take(UNKNOWN_NAMED).map(PeelId::as_str).collect();
        let more = if unknown.len() > UNKNOWN_NAMED { ", …" } else { "" };
        app.output.notice(&format!("no peel is called {}{more}", names.join(", ")));
    }
}

/// The name that was meant, where a target is one name and somebody has nearly that.
pub async fn nearly(client: &Client, target: &str) -> Option<String> {
    PeelId::parse(target).ok()?;
    let peels = tokio::time::timeout(UNKNOWN_WAIT, client.peels()).await.ok()?.ok()?;
    did_you_mean(target, peels.iter().map(|peel| peel.id.as_str()))
}

/// `MOD.FN ID k=v …`, with the timeout that belongs to it. Words travel as they were typed (C-15).
pub fn work(
    function: &str,
    words: &RawArguments,
    test: bool,
    timeout: Option<Duration>,
) -> Result<FunctionCall, String> {
    let mut words = words.clone();
    let test = call::dry_run(test, words.take("test"))?;
    if let Some(name) = words.twice() {
        return Err(format!("{function}: `{name}` is given twice"));
    }
    let words = call::with_bare_word(function, words);
    let mut bare = words.positional.iter();
    let state_id = bare.next().map(RawValue::shown).unwrap_or_default();
    let highstate = function == "state.highstate" || (function == "state.apply" && state_id.is_empty());
    let usual = match function {
        _ if highstate => HIGHSTATE_TIMEOUT,
        "state.apply" | "state.sls" | "state.sls_id" => APPLY_TIMEOUT,
        _ => TIMEOUT_DEFAULT,
    };
    Ok(FunctionCall {
        function: function.to_string(),
        state_id,
        positionals: bare.map(RawValue::to_wire).collect(),
        args: words.named.iter().map(|(key, value)| (key.clone(), value.to_wire())).collect(),
        test,
        timeout: timeout.unwrap_or(usual),
        user: user(),
    })
}

/// The job that a master is asked for. No targets: those of the expression.
pub fn request(link: &Link, work: &FunctionCall, expression: &str, targets: Vec<PeelId>) -> DispatchRequest {
    DispatchRequest {
        v: VERSION,
        jid: link.new_jid(),
        function: work.function.clone(),
        args: work.args.clone(),
        state_id: work.state_id.clone(),
        targets,
        target_expr: expression.to_string(),
        timeout: work.timeout,
        user: work.user.clone(),
        metadata: Map::new(),
        positionals: work.positionals.clone(),
        test: work.test,
        wait: None,
        target_digest: None,
    }
}

/// Who asks, for the record.
pub fn user() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| user_of(rustix::process::getuid().as_raw()))
}

/// A daemon or a container may have no environment; it has an owner.
fn user_of(uid: u32) -> String {
    let table = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_string();
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    };
    table.lines().find_map(name).unwrap_or_else(|| format!("uid-{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    fn work(function: &str, line: &[&str], timeout: Option<Duration>) -> Result<FunctionCall, String> {
        let words = RawArguments::parse(&line.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        super::work(function, &words, false, timeout)
    }

    #[test]
    #[rule("J-4")]
    fn j4_the_timeout_follows_the_function() {
        let seconds = |function: &str, line: &[&str]| work(function, line, None).unwrap().timeout.as_secs();
        assert_eq!(seconds("test.ping", &[]), 60);
        assert_eq!(seconds("state.apply", &["web"]), 300);
        assert_eq!(seconds("state.sls", &["web"]), 300);
        assert_eq!(seconds("state.sls_id", &["nginx", "web"]), 300);
        assert_eq!(seconds("state.apply", &[]), 600);
        assert_eq!(seconds("state.apply", &["test=true"]), 600);
        assert_eq!(seconds("state.highstate", &[]), 600);
        let given = work("state.apply", &[], Some(Duration::from_secs(7))).unwrap();
        assert_eq!(given.timeout.as_secs(), 7);
    }

    #[test]
    #[rule("S-8")]
    fn s8_the_environment_travels_as_a_word_of_functions_of_state_files() {
        let with = |function: &str, line: &[&str]| {
            let words = RawArguments::parse(&line.iter().map(|word| word.to_string()).collect::<Vec<_>>());
            with_environment(function, words, Some("prod"))
        };
        let words = with("state.apply", &["web"]).unwrap();
        assert_eq!(super::work("state.apply", &words, false, None).unwrap().args["saltenv"], json!("prod"));
        assert!(with("state.apply", &["saltenv=dev"]).unwrap_err().contains("given twice"));
        for other in ["cmd.run", "state.single", "test.ping"] {
            assert!(with(other, &["x"]).unwrap_err().contains("--env is for functions of state files"));
        }
    }

    #[test]
    #[rule("C-15")]
    fn c15_words_travel_with_the_letters_that_were_typed() {
        let line = ["/etc/x?a=b", "mode=0644", "content=1.10", "tags=[a, 1]", "y=yes", "x=0x1F"];
        let work = work("file.managed", &line, None).unwrap();
        assert_eq!(work.state_id, "/etc/x?a=b");
        let sent = json!({"mode": "0644", "content": "1.10", "tags": "[a, 1]", "y": "yes", "x": "0x1F"});
        assert_eq!(serde_json::Value::Object(work.args), sent);
        assert!(work.positionals.is_empty() && !work.test);
        let number = self::work("test.echo", &["5", "007"], None).unwrap();
        assert_eq!((number.state_id.as_str(), number.positionals), ("5", vec![json!("007")]));
    }

    #[test]
    #[rule("C-12")]
    fn c12_a_mistyped_function_is_told_with_the_nearest() {
        for (typo, hint) in [("test.pign", "`test.ping`"), ("state.aply", "`state.apply`")] {
            assert!(call::unknown(typo).contains(hint), "{}", call::unknown(typo));
        }
    }

    #[test]
    #[rule("C-12")]
    fn c12_a_mistyped_parameter_is_told_before_anything_is_sent() {
        let asked = |line: &[&str]| {
            let words = RawArguments::parse(&line.iter().map(|word| word.to_string()).collect::<Vec<_>>());
            let Ok(Asked::State { kind, words, .. }) = Asked::read("file.managed", words, false) else {
                panic!()
            };
            mistyped(kind, &words)
        };
        let told = asked(&["/etc/x", "contnet=1"]).unwrap();
        assert_eq!(told, "file.managed has no parameter `contnet`; did you mean `content`?");
        for good in ["content=1", "mode=0644", "onlyif=true", "require=[]", "names=[a]", "zzz=1"] {
            assert_eq!(asked(&["/etc/x", good]), None, "{good}");
        }
    }

    #[test]
    fn who_has_no_name_in_the_environment_has_one_on_the_machine() {
        assert_eq!(user_of(0), "root");
        assert_eq!(user_of(3_999_999_999), "uid-3999999999");
    }

    #[test]
    #[rule("C-5")]
    fn c5_test_is_a_word_too() {
        for (word, test) in [("test=true", true), ("test=on", true), ("test=no", false)] {
            let work = work("state.apply", &["web", word], None).unwrap();
            assert_eq!((work.test, work.args.len(), work.state_id.as_str()), (test, 0, "web"));
        }
    }

    #[test]
    #[rule("S-45")]
    fn s45_nothing_is_sent_whose_test_is_neither_true_nor_false() {
        for line in [&["web", "test=Ture"][..], &["web", "test=true", "test=false"]] {
            assert!(work("state.apply", line, None).is_err(), "{line:?}");
        }
        let denied = RawArguments::parse(&["test=False".to_string()]);
        assert!(super::work("state.apply", &denied, true, None).is_err());
    }

    #[test]
    #[rule("C-7")]
    fn c7_a_target_that_is_none_is_pointed_at() {
        assert!(target("web* and G@os:Debian").is_ok());
        for empty in ["", " ", "L@"] {
            assert!(target(empty).is_err(), "{empty:?}");
        }
        let failure = target("web* and").unwrap_err();
        let document = failure.document();
        assert_eq!(document["error"]["kind"], "target");
        assert!(document["error"]["column"].as_u64().unwrap() >= 8, "{document}");
    }
}
