//! `zester policy`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::config;
use crate::exit::Exit;
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;
use zester_converge::Error;
use zester_link::{Clock, SystemClock};
use zester_peel::policy::{Unreadable, read_file};
use zester_peel::schedule::local_zone;
use zester_policy::{Asker, Call, Judged, LocalPolicy};

/// What this machine does for others, and for whom
#[derive(clap::Args, Debug)]
pub struct Policy {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    Check(Check),
}

/// Read a policy, and say what it allows now
///
/// Without --function it says what each line means. A function is judged as if a master asked for it now, with the word of an
/// operator behind it where the policy wants one. Exit code 2 where one is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// The policy [default: /etc/zester/policy.yaml, or ~/.config/zester/policy.yaml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A function to judge, with its words: 'cmd.run id', 'state.apply web saltenv=prod'
    #[arg(long = "function", value_name = "FN")]
    pub functions: Vec<String>,
    /// As a dry run
    #[arg(long)]
    pub test: bool,
    /// As a call past the masters
    #[arg(long)]
    pub direct: bool,
    /// The master that asks
    #[arg(long, value_name = "NAME")]
    pub master: Option<String>,
    /// The operator whose word stands behind it; none: --no-operator
    #[arg(long, value_name = "NAME", conflicts_with = "no_operator")]
    pub operator: Option<String>,
    /// As if a master asked of its own accord
    #[arg(long)]
    pub no_operator: bool,
}

const EXAMPLES: &str = "Examples:
  zester policy check
  zester policy check policy.yaml --function 'cmd.run id' --function state.apply
  zester policy check --function state.apply --no-operator";

pub fn run(args: Policy, app: &mut App) -> answer::Result {
    match args.verb {
        Verb::Check(args) => check(&args, app),
    }
}

fn check(args: &Check, app: &App) -> answer::Result {
    let is_root = app.local_host.files.me().uid == 0;
    let named = args.file.clone().or(app.config.policy.clone());
    let path = named.or_else(|| config::default_policy(is_root));
    let path = path.ok_or_else(|| Failure::usage("name the file of the policy"))?;
    let (policy, begin) = match read_file(&path, &local_zone()) {
        Ok(policy) => (policy, format!("{} is good; this machine", path.display())),
        // A machine without a policy is a machine like any other, unless somebody meant that very file.
        Err(Unreadable::Missing) if args.file.is_none() && app.config.policy.is_none() => (
            LocalPolicy::default(),
            format!("{} is not there; without a policy this machine", path.display()),
        ),
        Err(Unreadable::Missing) => return Err(Failure::usage(format!("{} is not there", path.display()))),
        Err(Unreadable::Problems(diagnostics, sources)) => {
            return Err(Failure { error: Error::Diagnostics { diagnostics, sources }, exit: Exit::Usage });
        }
        Err(other) => return Err(Failure::usage(other.sentence(&path))),
    };
    let lines = policy.lines();
    let mut text = String::new();
    if args.functions.is_empty() {
        text.push_str(&format!("{begin}\n"));
        for (words, at) in &lines {
            text.push_str(&format!("  {words}\n      {at}\n"));
        }
        if lines.is_empty() {
            text.push_str("  does whatever masters and operators ask\n");
        }
    }
    let mut judged = Vec::new();
    for words in &args.functions {
        let verdict = judge(args, &policy, words)?;
        let (allowed, why, at) = match &verdict {
            Judged::Allowed(None) => (true, "allowed: nothing is said against it".to_string(), String::new()),
            Judged::Allowed(Some(by)) => (true, format!("allowed by {by}"), String::new()),
            Judged::Refused(refused) => (false, format!("refused: {}", refused.why), refused.at.clone()),
        };
        let mark = if allowed { "✓" } else { "✗" };
        let place = if at.is_empty() { String::new() } else { format!("      {at}\n") };
        text.push_str(&format!("{mark} {words}  {why}\n{place}"));
        judged.push(json!({ "function": words, "allowed": allowed, "why": why, "at": at }));
    }
    let refused = judged.iter().any(|one| one["allowed"] == false);
    let lines: Vec<Json> = lines.iter().map(|(words, at)| json!({ "says": words, "at": at })).collect();
    let json = json!({ "file": path, "lines": lines, "functions": judged });
    Ok((Answer::Document { json, text }, if refused { Exit::Failed } else { Exit::Good }))
}

fn judge(args: &Check, policy: &LocalPolicy, words: &str) -> Result<Judged, Failure> {
    let apart = zester_resources::shell_words::split(words)
        .map_err(|why| Failure::usage(format!("--function {words}: {why}")))?;
    let mut words = apart.into_iter();
    let function = words.next().ok_or_else(|| Failure::usage("--function: name one, as in `cmd.run id`"))?;
    let (mut bare, mut named): (Vec<Json>, Map<String, Json>) = (Vec::new(), Map::new());
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => {
                named.insert(key.to_string(), value.into());
            }
            None => bare.push(word.into()),
        }
    }
    let call = Call { function: &function, state_id: "", positionals: &bare, args: &named, test: args.test };
    let operator = args.operator.as_deref().or(policy.some_operator()).unwrap_or("an operator");
    let master = args.master.as_deref().or(policy.some_master()).unwrap_or("a master");
    let asker = match (args.direct, args.no_operator) {
        (true, _) => Asker::Direct { operator },
        (false, true) => {
            Asker::Master { name: master, key: master, operator: Err("its master brought none along".into()) }
        }
        (false, false) => Asker::Master { name: master, key: master, operator: Ok(operator) },
    };
    let kind = zester_peel::kind_of(&function);
    Ok(policy.judge(&asker, &call, kind, SystemClock.wall()))
}
