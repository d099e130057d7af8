//! `zester 'web*' test.ping`: the first word that is no command is a target.
//!
//! The words are turned into those of the hidden command [`COMMAND`] before clap sees them, so that help, flags and their
//! errors are clap's, wherever a flag stands.

use crate::output::shell::quoted;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command};
use std::ffi::OsString;
use zester_converge::functions::FUNCTIONS;
use zester_model::suggest::did_you_mean;

/// What a call on the fleet is called inside.
pub const COMMAND: &str = "on-fleet";

/// The words as clap knows them. An error where the first word is neither a command nor the target of a function.
pub fn rewrite(words: Vec<OsString>, command: &Command) -> Result<Vec<OsString>, clap::Error> {
    let plain = plain_words(&words, command);
    let Some((_, first)) = plain.first() else { return Ok(words) };
    let known = || command.get_subcommands().flat_map(Command::get_name_and_visible_aliases);
    if first == "help" || known().any(|name| name == first) {
        return Ok(words);
    }
    if first.trim().is_empty() {
        let message = "the target is empty; '*' means every peel";
        return Err(command.clone().error(ErrorKind::InvalidValue, message));
    }
    let is_function = |word: &str| {
        word.split_once('.').is_some_and(|(module, name)| !module.is_empty() && !name.is_empty())
    };
    let asks_help = words.iter().any(|word| word == "--help" || word == "-h");
    match plain.get(1) {
        Some((_, second)) if is_function(second) => {}
        _ if asks_help && is_expression(first) => {}
        _ if is_known_module(first) => {
            let rest: Vec<String> =
                words.iter().skip(1).map(|word| quoted(&word.to_string_lossy())).collect();
            let message = format!("the target is missing: zester '*' {}", rest.join(" "));
            return Err(command.clone().error(ErrorKind::InvalidSubcommand, message));
        }
        // Whoever writes an expression means a target; whoever writes a plain word more likely mistyped a command.
        second => {
            let mut message = if is_expression(first) {
                match second {
                    None => format!("a function is missing: zester '{first}' MOD.FN, for example test.ping"),
                    Some((_, second)) => {
                        format!("`{second}` is no function; one reads MOD.FN, like test.ping")
                    }
                }
            } else {
                format!("there is no command `{first}`")
            };
            let visible = known().filter(|name| *name != COMMAND);
            if let Some(hint) = did_you_mean(first, visible) {
                message.push_str(&format!("; {hint}"));
            }
            if !is_expression(first) {
                message.push_str(&format!("\n\n  if it is a peel, say what to do: zester {first} test.ping"));
            }
            return Err(command.clone().error(ErrorKind::InvalidSubcommand, message));
        }
    }
    let mut rewritten = words;
    rewritten.insert(1.min(rewritten.len()), COMMAND.into());
    Ok(rewritten)
}

/// `test.ping`: the module of some kind of state or function.
fn is_known_module(word: &str) -> bool {
    let module_of = |name: &'static str| name.split('.').next();
    let mut modules = zester_resources::catalog().names().filter_map(module_of).chain(["state"]);
    let mut functions = FUNCTIONS.iter().filter_map(|function| module_of(function.name));
    word.split_once('.').is_some_and(|(module, name)| {
        !name.is_empty() && (modules.any(|known| known == module) || functions.any(|known| known == module))
    })
}

/// What to write where the words of a command were taken for our flags: `zester web-1 cmd.run uptime -a`.
pub fn quote_command(error: clap::Error, words: &[OsString], command: &Command) -> clap::Error {
    let wrong = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(wrong))) => wrong,
        _ => return error,
    };
    let text: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let function = text.iter().position(|word| word.starts_with("cmd."));
    let flag = text.iter().position(|word| word == wrong);
    let is_meant = matches!(text.first().map(String::as_str), Some(COMMAND | "call"));
    let (Some(function), Some(flag), true) = (function, flag, is_meant) else { return error };
    if flag < function + 2 || error.get(ContextKind::SuggestedArg).is_some() {
        return error;
    }
    let start = usize::from(text.first().is_some_and(|word| word == COMMAND));
    let before: Vec<String> = text[start..=function].iter().map(|word| quoted(word)).collect();
    let whole = quoted(&text[function + 1..].join(" "));
    let message = format!("quote the command: zester {} {whole}", before.join(" "));
    command.clone().error(ErrorKind::UnknownArgument, message)
}

fn is_expression(word: &str) -> bool {
    word.is_empty() || word.contains(['*', '?', '[', '@', ',', '(', ' '])
}

/// The first words that are neither flags nor values of flags, with their places. Nothing, where help is asked for or an
/// unknown flag stands before any of them.
fn plain_words(words: &[OsString], command: &Command) -> Vec<(usize, String)> {
    let fleet = command.find_subcommand(COMMAND);
    let flags = || command.get_arguments().chain(fleet.into_iter().flat_map(Command::get_arguments));
    let is_known = |flag: &str| {
        let long = flag.split('=').next();
        flags().any(|known| known.get_long() == long)
    };
    let takes_value = |long: &str| {
        flags().any(|flag| {
            flag.get_long() == Some(long) && matches!(flag.get_action(), ArgAction::Set | ArgAction::Append)
        })
    };
    let mut plain = Vec::new();
    let mut at = 1;
    while at < words.len() && plain.len() < 2 {
        let word = words[at].to_string_lossy();
        match word.strip_prefix("--") {
            Some("") => {
                plain.extend(
                    words
                        .iter()
                        .enumerate()
                        .skip(at + 1)
                        .map(|(at, word)| (at, word.to_string_lossy().into())),
                );
                break;
            }
            Some(flag) if !flag.contains('=') && takes_value(flag) => at += 1,
            Some("help" | "version") if plain.is_empty() => return Vec::new(),
            // Nobody knows whether the next word is its value: the flag is what is wrong.
            Some(flag) if plain.is_empty() && !is_known(flag) => return Vec::new(),
            Some(_) => {}
            None if word.starts_with('-') && word.len() > 1 => {
                if plain.is_empty() && matches!(&*word, "-h" | "-V") {
                    return Vec::new();
                }
            }
            None => plain.push((at, word.into_owned())),
        }
        at += 1;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &[&str]) -> Result<Vec<String>, String> {
        let words = std::iter::once("zester").chain(line.iter().copied()).map(OsString::from).collect();
        let told = rewrite(words, &crate::command()).map_err(|error| error.to_string())?;
        Ok(told.into_iter().skip(1).map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn a_word_that_is_no_command_is_a_target() {
        for line in [
            &["web*", "test.ping"][..],
            &["web-1", "cmd.run", "uname -a"],
            &["--format", "json", "web-1", "test.ping"],
            &["--format=json", "--no-color", "web-1", "test.ping"],
            &["--nats", "nats://x:1", "--test", "--timeout", "5s", "*", "state.apply"],
            &["--set", "timing.ack_window=2s", "*", "test.ping", "--async"],
            &["*", "--timeout", "5s", "test.ping"],
            &["web*", "--help"],
        ] {
            let mut wanted = vec![COMMAND];
            wanted.extend(line);
            assert_eq!(rewritten(line).unwrap(), wanted, "{line:?}");
        }
    }

    #[test]
    fn commands_flags_and_help_are_left_alone() {
        for line in [
            &[][..],
            &["apply", "web"],
            &["job", "show", "x.y"],
            &["--help"],
            &["-h", "web-1", "test.ping"],
            &["--version"],
            &["help", "apply"],
            &["--format", "json", "peel", "list"],
            &["--formt", "json", "apply"],
            &["--formt=json", "web-1", "test.ping"],
        ] {
            assert_eq!(rewritten(line).unwrap(), line, "{line:?}");
        }
    }

    #[test]
    fn a_mistyped_command_is_not_sent_to_the_fleet() {
        for line in [&["aply"][..], &["aply", "web"], &["--no-color", "aply"]] {
            let error = rewritten(line).unwrap_err();
            assert!(error.contains("there is no command `aply`; did you mean `apply`?"), "{error}");
        }
        for empty in [&[""][..], &["", "test.ping"], &[" ", "test.ping"]] {
            assert!(rewritten(empty).unwrap_err().contains("the target is empty"), "{empty:?}");
        }
        assert!(rewritten(&["web*"]).unwrap_err().contains("a function is missing"));
        assert!(rewritten(&["web*", "ping"]).unwrap_err().contains("`ping` is no function"));
    }

    #[test]
    fn a_function_without_a_target_is_told_where_it_goes() {
        let told = |line: &[&str]| rewritten(line).unwrap_err();
        assert!(told(&["test.ping"]).contains("the target is missing: zester '*' test.ping\n"));
        let told = told(&["cmd.run", "uname -a"]);
        assert!(told.contains("the target is missing: zester '*' cmd.run 'uname -a'\n"), "{told}");
        assert!(rewritten(&["web.example"]).unwrap_err().contains("there is no command `web.example`"));
    }

    #[test]
    fn a_command_that_is_not_quoted_is_shown_quoted() {
        use clap::Parser;
        let told = |line: &[&str]| {
            let words: Vec<OsString> = ["zester"].iter().chain(line).map(OsString::from).collect();
            let error = crate::arguments::Zester::try_parse_from(&words).unwrap_err();
            quote_command(error, &words, &crate::command()).to_string()
        };
        let quote = "quote the command: zester web-1 cmd.run 'uptime -a'\n";
        assert!(told(&[COMMAND, "web-1", "cmd.run", "uptime", "-a"]).contains(quote));
        assert!(told(&["call", "cmd.run", "ls", "-l", "/"]).contains("zester call cmd.run 'ls -l /'\n"));
        for line in [&["apply", "-x"][..], &[COMMAND, "web-1", "cmd.run", "id", "--timeuot", "5s"]] {
            assert!(!told(line).contains("quote the command"), "{line:?}");
        }
    }
}
