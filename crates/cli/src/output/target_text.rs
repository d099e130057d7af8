//! Which peels a target means, for people.

use super::fleet_text::{count_of, id_width};
use super::job_text::ago;
use super::paint::Paint;
use super::wrap::{WIDTH, wrap};
use std::fmt::Write;
use zester_wire::{ExplainedPeel, PartSaidNo, PeelId, UnixMillis};

/// Peels of a group that are named; JSON has all of them.
const NAMED_MAX: usize = 50;

/// Three groups, each with its count: who is there, who is offline, who is not meant and why.
pub fn text(peels: &[ExplainedPeel], unknown: &[PeelId], now: UnixMillis, paint: Paint) -> String {
    let names: Vec<PeelId> = peels.iter().map(|peel| peel.peel.clone()).collect();
    let width = id_width(&names);
    let of = |meant: fn(&ExplainedPeel) -> bool| peels.iter().filter(move |peel| meant(peel));
    let mut out = String::new();
    group(&mut out, "match", of(|peel| peel.matches && peel.online), paint, |peel| {
        format!(" {} {}", paint.green("✓"), peel.peel)
    });
    group(&mut out, "match and are offline", of(|peel| peel.matches && !peel.online), paint, |peel| {
        let seen = match peel.last_seen.is_zero() {
            true => "never seen".to_string(),
            false => format!("last seen {}", ago(peel.last_seen, now)),
        };
        format!(" {} {:<width$}  {seen}", paint.yellow("!"), peel.peel.as_str())
    });
    group(&mut out, "do not match", of(|peel| !peel.matches), paint, |peel| {
        let why: Vec<String> = peel.said_no.iter().map(said_no).collect();
        let offline = if peel.online { "" } else { "  (offline)" };
        wrap(&format!(" · {:<width$}  {}{offline}", peel.peel.as_str(), why.join("; ")), WIDTH)
    });
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().take(NAMED_MAX).map(PeelId::as_str).collect();
        let more = if unknown.len() > NAMED_MAX { ", …" } else { "" };
        let _infallible = writeln!(out, "\nno peel is called {}{more}", names.join(", "));
    }
    if !peels.iter().any(|peel| peel.matches) {
        let known = if peels.is_empty() { "no peel is known" } else { "no peel matches" };
        let _infallible = writeln!(out, "{}{}", if out.is_empty() { "" } else { "\n" }, paint.red(known));
    }
    out
}

/// `G@os:debian said no: os is Arch`
fn said_no(no: &PartSaidNo) -> String {
    match no.found.is_empty() {
        true => format!("{} said no", no.part),
        false => format!("{} said no: {}", no.part, no.found),
    }
}

fn group<'a>(
    out: &mut String,
    words: &str,
    peels: impl Iterator<Item = &'a ExplainedPeel>,
    paint: Paint,
    line: impl Fn(&ExplainedPeel) -> String,
) {
    let peels: Vec<&ExplainedPeel> = peels.collect();
    if peels.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    // `1 peel matches`, `2 peels match`.
    let words = match peels.len() {
        1 => words
            .replacen("match", "matches", 1)
            .replacen("do not matches", "does not match", 1)
            .replace(" are ", " is "),
        _ => words.to_string(),
    };
    let _infallible = writeln!(out, "{}", paint.bold(&format!("{} {words}", count_of(peels.len(), "peel"))));
    for peel in peels.iter().take(NAMED_MAX) {
        let _infallible = writeln!(out, "{}", line(peel));
    }
    if peels.len() > NAMED_MAX {
        let more = format!("   and {} more; --format json has all of them", peels.len() - NAMED_MAX);
        let _infallible = writeln!(out, "{}", paint.dim(&more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn peel(name: &str, online: bool, said_no: &[(&str, &str)]) -> ExplainedPeel {
        let no =
            |(part, found): &(&str, &str)| PartSaidNo { part: part.to_string(), found: found.to_string() };
        ExplainedPeel {
            peel: PeelId::parse(name).unwrap(),
            matches: said_no.is_empty(),
            online,
            last_seen: UnixMillis(1_000),
            said_no: said_no.iter().map(no).collect(),
        }
    }

    #[test]
    #[rule("D-8")]
    fn d8_who_matches_who_is_offline_and_which_part_said_no() {
        let peels = [
            peel("db-1", true, &[("web*", "")]),
            peel("web-1", true, &[]),
            peel("web-2", true, &[]),
            peel("web-3", false, &[]),
            peel("web-4", false, &[("G@os:debian", "os is Arch")]),
        ];
        let now = UnixMillis(61_000);
        let told = text(&peels, &[PeelId::parse("web-9").unwrap()], now, Paint::new(false));
        assert_eq!(
            told,
            "2 peels match\n ✓ web-1\n ✓ web-2\n\n1 peel matches and is offline\n ! web-3  last seen 1m 0s ago\n\n\
             2 peels do not match\n · db-1   web* said no\n · web-4  G@os:debian said no: os is Arch  (offline)\n\n\
             no peel is called web-9\n"
        );
        let none = text(&peels[..1], &[], now, Paint::new(false));
        assert_eq!(none, "1 peel does not match\n · db-1  web* said no\n\nno peel matches\n");
        assert_eq!(text(&[], &[], now, Paint::new(false)), "no peel is known\n");
        let many: Vec<ExplainedPeel> = (0..200).map(|at| peel(&format!("web-{at}"), true, &[])).collect();
        let told = text(&many, &[], now, Paint::new(false));
        assert!(told.ends_with("   and 150 more; --format json has all of them\n"), "{told}");
    }
}
