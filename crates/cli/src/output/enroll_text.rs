//! Enrollments and join tokens for people.

use super::job_text::ago;
use super::paint::Paint;
use std::fmt::Write;
use zester_wire::{Enrollment, EnrollmentStatus as Status, JoinToken, Token, UnixMillis};

/// Letters of an id that are shown in a list: those of the key.
const FINGERPRINT: usize = 16;

fn status(record: &Enrollment, paint: Paint) -> String {
    let word = format!("{:<8}", record.status.as_str());
    match record.status {
        Status::Active => paint.green(&word),
        Status::Pending => paint.yellow(&word),
        Status::Rejected | Status::Revoked => paint.red(&word),
        _ => paint.cyan(&word),
    }
}

pub fn list(records: &[Enrollment], now: UnixMillis, paint: Paint) -> String {
    if records.is_empty() {
        return "nobody has asked to be a peel\n".to_string();
    }
    let width = |of: fn(&Enrollment) -> usize| records.iter().map(of).max().unwrap_or_default();
    let (names, places) = (width(|one| one.peel.as_str().len()), width(|one| one.address.len()));
    let mut text = String::new();
    for record in records {
        let print: String = record.id.as_str().chars().take(FINGERPRINT).collect();
        let by = if record.by.is_empty() { String::new() } else { format!(" by {}", record.by) };
        let _infallible = writeln!(
            text,
            "{:<names$}  {}  {print}  {:<places$}  {}{by}",
            record.peel.as_str(),
            status(record, paint),
            record.address,
            ago(record.changed, now),
        );
    }
    let waiting = records.iter().filter(|one| one.status == Status::Pending).count();
    if waiting > 0 {
        let machines = if waiting == 1 { "machine waits" } else { "machines wait" };
        let _infallible = writeln!(text, "\n{waiting} {machines}: zester enroll approve NAME");
    }
    text
}

pub fn show(record: &Enrollment, now: UnixMillis, paint: Paint) -> String {
    let mut text = format!("{}  {}\n", record.peel, status(record, paint).trim_end());
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _infallible = writeln!(text, "  {name:<10} {value}");
        }
    };
    line("id", record.id.to_string());
    line("key", record.key.clone());
    line("from", record.address.clone());
    line("asked", ago(record.requested, now));
    line("changed", ago(record.changed, now));
    line("by", record.by.clone());
    line("reason", record.reason.clone());
    let token = record.token.as_ref().map(|token| format!("{} {}", token.id, token.label).trim().to_string());
    line("token", token.unwrap_or_default());
    line("until", record.until.map(|until| ahead(until, now)).unwrap_or_default());
    for former in &record.former {
        line("before", format!("{}, until {}", former.key, ago(former.at, now)));
    }
    if record.status == Status::Pending {
        let _infallible = writeln!(
            text,
            "\ncompare the id with what the machine prints, then: zester enroll approve {}",
            record.peel
        );
    }
    text
}

/// How far ahead a moment is.
fn ahead(at: UnixMillis, now: UnixMillis) -> String {
    // What has a moment left has not ended.
    let seconds = at.since(now).as_millis().div_ceil(1_000);
    match u64::try_from(seconds).unwrap_or(u64::MAX) {
        0 => "ended".to_string(),
        seconds => {
            format!("{} from now", super::duration_words(seconds.saturating_mul(1_000)).replace(".0s", "s"))
        }
    }
}

pub fn tokens(tokens: &[(Token, JoinToken)], now: UnixMillis, paint: Paint) -> String {
    if tokens.is_empty() {
        return "there are no join tokens\n".to_string();
    }
    let names = tokens.iter().map(|(_, token)| token.names.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (id, token) in tokens {
        let state = match &token.used {
            Some(used) => paint.cyan(&format!("used by {}", used.peel)),
            None if token.until <= now => paint.yellow("ended"),
            None => format!("counts {}", ahead(token.until, now).replace(" from now", " more")),
        };
        let mut more = String::new();
        for (word, value) in [("from", token.address.as_deref().unwrap_or_default()), ("label", &token.label)]
        {
            if !value.is_empty() {
                let _infallible = write!(more, "  {word} {value}");
            }
        }
        let hold = if token.hold { "  holds" } else { "" };
        let _infallible = writeln!(text, "{id}  {:<names$}  {state}{more}{hold}", token.names);
    }
    text
}
