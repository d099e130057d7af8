//! `policy.yaml` as the user wrote it.

use crate::limits::WINDOW_MAX;
use crate::local::{At, LocalPolicy, OperatorsWanted};
use crate::window::Window;
use crate::words::Reader;
use zester_model::diagnostic::Diagnostic;
use zester_model::duration;
use zester_model::node::Node;
use zester_model::source::Sources;
use zester_schedule::CronTimes;

const WORDS: &[&str] =
    &["functions", "commands", "read_only", "maintenance", "operators", "masters", "direct"];
const FUNCTIONS: &[&str] = &["allow", "deny"];
const WINDOW: &[&str] = &["cron", "for", "timezone"];

/// Reads a policy: all of it, or everything that is wrong. `local_zone`: the zone of windows that name none.
pub fn read(node: &Node, sources: &Sources, local_zone: &str) -> Result<LocalPolicy, Vec<Diagnostic>> {
    let mut reader = Reader::new(sources);
    let mut policy = LocalPolicy::default();
    // An empty file is more likely a mistake than a wish, and a wish for nothing needs no file.
    let given = reader.words(node, WORDS, "a policy").unwrap_or_default();
    for (word, key, value) in given {
        let at = reader.place(key.span);
        match word {
            "functions" => functions(&mut reader, value, &mut policy),
            "commands" => match reader.text(value).as_deref() {
                Some("published") => policy.published_commands = Some(at),
                Some("any") | None => {}
                Some(other) => {
                    let why = format!("`{other}` is no word for commands; write `published`, or `any`");
                    reader.tell(value.span, &why);
                }
            },
            "read_only" => policy.read_only = reader.truth(value).filter(|is| *is).map(|_| at),
            "direct" => policy.no_direct = reader.truth(value).filter(|is| !*is).map(|_| at),
            "maintenance" => {
                let windows = windows(&mut reader, value, local_zone);
                policy.windows = Some(At { value: windows, at });
            }
            "operators" => {
                let names: Vec<String> = reader.texts(value).into_iter().map(|(name, _)| name).collect();
                let value = match (names.as_slice(), value.as_list()) {
                    ([word], None) if word == "required" => OperatorsWanted::Any,
                    ([word], None) => {
                        let why = format!(
                            "`{word}` is no word for operators; write `required`, or a list of their names"
                        );
                        reader.tell(value.span, &why);
                        OperatorsWanted::Named(names)
                    }
                    _ => OperatorsWanted::Named(names),
                };
                policy.operators = Some(At { value, at });
            }
            _ => {
                let names = reader.texts(value).into_iter().map(|(name, _)| name).collect();
                policy.masters = Some(At { value: names, at });
            }
        }
    }
    if reader.problems.is_empty() { Ok(policy) } else { Err(reader.problems) }
}

fn functions(reader: &mut Reader<'_>, node: &Node, policy: &mut LocalPolicy) {
    for (word, key, value) in reader.words(node, FUNCTIONS, "`allow` and `deny`").unwrap_or_default() {
        let (at, patterns) = (reader.place(key.span), reader.patterns(value));
        match word {
            "allow" => policy.allow = Some(At { value: patterns, at }),
            _ => policy.deny = patterns,
        }
    }
}

fn windows(reader: &mut Reader<'_>, node: &Node, local_zone: &str) -> Vec<Window> {
    let Some(items) = node.as_list() else {
        reader.tell(
            node.span,
            "expected a list of windows; write `- cron: '0 2 * * sat'`, and `for: 4h` below",
        );
        return Vec::new();
    };
    if items.is_empty() {
        reader.tell(node.span, "the list is empty; `read_only: true` says that nothing is ever changed");
    }
    items.iter().filter_map(|item| window(reader, item, local_zone)).collect()
}

fn window(reader: &mut Reader<'_>, node: &Node, local_zone: &str) -> Option<Window> {
    let given = reader.words(node, WINDOW, "a window")?;
    let find = |word: &str| given.iter().find(|(one, ..)| *one == word).map(|(_, _, value)| *value);
    let (Some(cron), Some(lasts)) = (find("cron"), find("for")) else {
        reader.tell(node.span, "a window needs `cron`, when it opens, and `for`, how long; write both");
        return None;
    };
    let zone = match find("timezone") {
        Some(value) => reader.text(value)?,
        None => local_zone.to_string(),
    };
    let text = reader.text(cron)?;
    let times = CronTimes::parse(&text, &zone).map_err(|why| reader.tell(cron.span, &why)).ok()?;
    let span = reader.text(lasts)?;
    let lasts_for = duration::parse(&span).map_err(|why| reader.tell(lasts.span, &why)).ok()?;
    if lasts_for.is_zero() || lasts_for > WINDOW_MAX {
        let days = WINDOW_MAX.as_secs() / 86_400;
        reader.tell(lasts.span, &format!("a window lasts up to {days} days, and longer than no time"));
        return None;
    }
    Some(Window { times, lasts: lasts_for })
}
