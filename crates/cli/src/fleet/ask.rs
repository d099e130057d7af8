//! The words of a call on the fleet, read into what a master or a peel is asked.

use crate::answer::Failure;
use crate::app::App;
use crate::commands::apply::is_true;
use serde_json::Map;
use std::time::Duration;
use zester_client::{Client, Work};
use zester_converge::call::{self, Words};
use zester_converge::functions;
use zester_link::Link;
use zester_model::problem::{Kind, Problem};
use zester_model::source::{Sources, Span};
use zester_model::suggest::did_you_mean;
use zester_model::target::Target;
use zester_wire::job::TIMEOUT_DEFAULT;
use zester_wire::{DispatchRequest, PeelId, VERSION};

/// How long states may take when nobody says (J-4).
const APPLY_TIMEOUT: Duration = Duration::from_secs(5 * 60);
const HIGHSTATE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Functions of whole trees, which are neither kinds of state nor execution functions.
const OF_TREES: [&str; 4] = ["state.apply", "state.highstate", "state.revert", "state.graph"];

/// Refuses a function that nobody has, before every peel of the fleet says so. A peel of another release may know more than
/// we do, so then it is asked.
pub async fn check_function(app: &App, client: &Client, function: &str) -> Result<(), Failure> {
    if is_known(function) {
        return Ok(());
    }
    // Who cannot be asked now is asked for the work, and tells then what is wrong.
    let Ok(peels) = client.peels().await else { return Ok(()) };
    if peels.is_empty() || peels.iter().any(|peel| peel.version != env!("CARGO_PKG_VERSION")) {
        app.output.notice(&format!("{}; asking the peels all the same", unknown(function)));
        return Ok(());
    }
    Err(Failure::usage(unknown(function)))
}

fn is_known(function: &str) -> bool {
    OF_TREES.contains(&function)
        || zester_resources::catalog().get(function).is_some()
        || functions::find(function).is_some()
}

fn unknown(function: &str) -> String {
    match did_you_mean(function, OF_TREES) {
        Some(hint) => format!("there is no function `{function}`; {hint}"),
        None => call::unknown(function),
    }
}

/// Reads a target, or points at the character that makes it none, before anything is sent.
pub fn check_target(expression: &str) -> Result<(), Failure> {
    let Err(error) = Target::parse(expression) else { return Ok(()) };
    let mut sources = Sources::default();
    let file = sources.add("target", expression);
    let before = expression.get(..error.offset).unwrap_or(expression);
    let column = u32::try_from(before.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
    let problem =
        Problem::new(Kind::Target, error.message).at(Span::new(file, 1, column, 1)).maybe_hint(error.hint);
    let error = zester_converge::Error::Problems { problems: vec![problem], sources: Box::new(sources) };
    Err(error.into())
}

/// `MOD.FN ID k=v …`, with the timeout that belongs to it.
pub fn work(function: &str, words: &[String], test: bool, timeout: Option<Duration>) -> Work {
    let (tests, words): (Vec<String>, Vec<String>) =
        words.iter().cloned().partition(|word| word.starts_with("test="));
    let test = test || tests.iter().any(|word| is_true(word.trim_start_matches("test=")));
    // The first bare word goes as it was typed: it is a path, a package or a command, not a value.
    let is_bare = |word: &String| Words::parse(std::slice::from_ref(word)).named_json().is_empty();
    let state_id = words.iter().find(|word| is_bare(word)).cloned().unwrap_or_default();
    let parsed = Words::parse(&words);
    let highstate = function == "state.highstate" || (function == "state.apply" && state_id.is_empty());
    let usual = match function {
        _ if highstate => HIGHSTATE_TIMEOUT,
        "state.apply" => APPLY_TIMEOUT,
        _ => TIMEOUT_DEFAULT,
    };
    Work {
        function: function.to_string(),
        state_id,
        positionals: parsed.positional_json().into_iter().skip(1).collect(),
        args: parsed.named_json(),
        test,
        timeout: timeout.unwrap_or(usual),
        user: user(),
    }
}

/// The job that a master is asked for. No targets: those of the expression.
pub fn request(link: &Link, work: &Work, expression: &str, targets: Vec<PeelId>) -> DispatchRequest {
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

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    #[rule("J-4")]
    fn j4_the_timeout_follows_the_function() {
        let seconds =
            |function: &str, line: &[&str]| work(function, &words(line), false, None).timeout.as_secs();
        assert_eq!(seconds("test.ping", &[]), 60);
        assert_eq!(seconds("state.apply", &["web"]), 300);
        assert_eq!(seconds("state.apply", &[]), 600);
        assert_eq!(seconds("state.apply", &["test=true"]), 600);
        assert_eq!(seconds("state.highstate", &[]), 600);
        let given = work("state.apply", &[], false, Some(Duration::from_secs(7)));
        assert_eq!(given.timeout.as_secs(), 7);
    }

    #[test]
    #[rule("C-12")]
    fn c12_the_bare_word_goes_as_typed_and_values_are_yaml() {
        let work = work("file.managed", &words(&["/etc/x?a=b", "mode=0644", "tags=[a, 1]"]), false, None);
        assert_eq!(work.state_id, "/etc/x?a=b");
        assert_eq!(work.args["tags"], json!(["a", 1]));
        assert!(work.positionals.is_empty() && !work.test);
        let number = super::work("test.echo", &words(&["5", "6"]), false, None);
        assert_eq!((number.state_id.as_str(), number.positionals), ("5", vec![json!(6)]));
    }

    #[test]
    #[rule("C-12")]
    fn c12_what_this_release_knows_is_a_state_a_function_or_of_trees() {
        for known in ["state.apply", "state.graph", "file.managed", "test.ping", "facts.get"] {
            assert!(is_known(known), "{known}");
        }
        for (typo, hint) in [("test.pign", "`test.ping`"), ("state.aply", "`state.apply`")] {
            assert!(!is_known(typo) && unknown(typo).contains(hint), "{}", unknown(typo));
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
            let work = work("state.apply", &words(&["web", word]), false, None);
            assert_eq!((work.test, work.args.len(), work.state_id.as_str()), (test, 0, "web"));
        }
    }

    #[test]
    #[rule("C-7")]
    fn c7_a_target_that_is_none_is_pointed_at() {
        assert!(check_target("web* and G@os:Debian").is_ok());
        let failure = check_target("web* and").unwrap_err();
        let document = failure.document();
        assert_eq!(document["error"]["kind"], "target");
        assert!(document["error"]["column"].as_u64().unwrap() >= 8, "{document}");
    }
}
