//! The report of `zester migrate`, for people: as text, and as a page that needs nothing else.

use std::fmt::Write as _;
use zester_converge::migrate::{FileReport, FileStatus, Finding, Survey, reason_words};

const VERDICTS: [FileStatus; 3] = [FileStatus::Ready, FileStatus::Differs, FileStatus::NeedsHand];

/// What a file has several times is told once, with all its places.
struct Told<'s> {
    finding: &'s Finding,
    also: Vec<&'s str>,
}

fn told(file: &FileReport) -> Vec<Told<'_>> {
    let mut told: Vec<Told<'_>> = Vec::new();
    for finding in &file.findings {
        let same = |it: &&mut Told<'_>| {
            it.finding.reason == finding.reason
                && it.finding.message == finding.message
                && it.finding.instead == finding.instead
        };
        match told.iter_mut().find(same) {
            Some(first) => first.also.push(&finding.place),
            None => told.push(Told { finding, also: Vec::new() }),
        }
    }
    told
}

/// What is to be read under a finding.
fn explained(finding: &Finding) -> impl Iterator<Item = (&'static str, &str)> {
    let lines = [("in Salt", &finding.salt), ("here", &finding.zester), ("instead", &finding.instead)];
    lines
        .into_iter()
        .map(|(who, what)| (who, what.as_str()))
        .filter(|(_, what)| !["", "nothing"].contains(what))
}

/// One line a file, what was found below it, and the totals.
pub fn text(survey: &Survey) -> String {
    let mut out = String::new();
    for file in &survey.files {
        let _ = writeln!(out, "{}: {}", file.path, file.verdict().as_str());
        for Told { finding, also } in told(file) {
            let _ = writeln!(out, "  {}  {}", finding.place, finding.message);
            if !also.is_empty() {
                let _ = writeln!(out, "      also {}", also.join(", "));
            }
            for (who, what) in explained(finding) {
                let _ = writeln!(out, "      {who}: {what}");
            }
        }
    }
    out.push('\n');
    for (reason, count) in survey.reasons() {
        let _ = writeln!(out, "{count:6}  {}", reason_words(&reason));
    }
    let counts = VERDICTS.map(|verdict| format!("{} {}", survey.count(verdict), verdict.as_str()));
    let _ = writeln!(out, "\n{} files: {}", survey.files.len(), counts.join(", "));
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn class(file: &FileReport) -> &'static str {
    match file.verdict() {
        FileStatus::Ready => "ready",
        FileStatus::Differs => "differs",
        FileStatus::NeedsHand => "hand",
    }
}

/// The same as a page.
pub fn html(survey: &Survey) -> String {
    let mut out = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>zester migrate</title>\n<style>\n\
         body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\n\
         table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ddd;padding:.3rem .5rem;text-align:left;vertical-align:top}\n\
         code{background:#f4f4f4;padding:0 .2rem}summary{cursor:pointer}.ready{color:#187a2f}.differs{color:#9a6700}.hand{color:#b3261e}\n\
         @media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}code{background:#2a2a2a}td,th{border-color:#333}}\n\
         </style>\n</head>\n<body>\n<h1>zester migrate</h1>\n",
    );
    let counts = VERDICTS.map(|verdict| format!("{} {}", survey.count(verdict), verdict.as_str()));
    let _ = writeln!(out, "<p>{} files: {}</p>", survey.files.len(), counts.join(", "));
    out.push_str("<table><tr><th>reason</th><th>files</th></tr>\n");
    for (reason, count) in survey.reasons() {
        let _ = writeln!(out, "<tr><td>{}</td><td>{count}</td></tr>", escaped(reason_words(&reason)));
    }
    out.push_str("</table>\n");
    for file in &survey.files {
        let (path, verdict) = (escaped(&file.path), file.verdict().as_str());
        let _ = writeln!(out, "<details><summary class=\"{}\">{path}: {verdict}</summary>", class(file));
        if !file.findings.is_empty() {
            out.push_str(
                "<table><tr><th>where</th><th>what</th><th>in Salt</th><th>here</th><th>instead</th></tr>\n",
            );
        }
        for Told { finding, also } in told(file) {
            let cells =
                [&finding.message, &finding.salt, &finding.zester, &finding.instead].map(|it| escaped(it));
            let places = std::iter::once(finding.place.as_str()).chain(also);
            let places: Vec<String> = places.map(|it| format!("<code>{}</code>", escaped(it))).collect();
            let _ =
                writeln!(out, "<tr><td>{}</td><td>{}</td></tr>", places.join(" "), cells.join("</td><td>"));
        }
        out.push_str(if file.findings.is_empty() { "</details>\n" } else { "</table></details>\n" });
    }
    out.push_str("</body>\n</html>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_converge::migrate::Role;
    use zester_rule::rule;

    #[test]
    #[rule("S-56")]
    fn s56_a_report_names_place_difference_and_remedy() {
        let finding = Finding {
            reason: "unknown_kind".into(),
            place: "web.sls:2:3".into(),
            message: "unknown module `<x>`".into(),
            salt: "loads it".into(),
            zester: "refuses it".into(),
            instead: "use a `cmd.run`".into(),
            refused: true,
        };
        let again = Finding { place: "web.sls:9:3".into(), ..finding.clone() };
        let findings = vec![finding, again];
        let file = FileReport { path: "web.sls".into(), role: Role::States, findings, states: 1 };
        let ready = FileReport { path: "db.sls".into(), role: Role::States, findings: Vec::new(), states: 1 };
        let survey = Survey { files: vec![file, ready] };
        let shown = text(&survey);
        for part in [
            "web.sls: needs a hand",
            "web.sls:2:3  unknown module",
            "here: refuses it",
            "also web.sls:9:3",
            "db.sls: ready\n",
            "     1  a state module that is not built in",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
        assert_eq!(shown.matches("here: refuses it").count(), 1, "what a file has twice is explained once");
        assert!(shown.ends_with("2 files: 1 ready, 0 ready with a difference, 1 needs a hand\n"), "{shown}");
        let page = html(&survey);
        assert!(page.contains("&lt;x&gt;") && !page.contains("<x>"), "{page}");
        assert!(!page.contains("http"), "it loads nothing");
    }
}
