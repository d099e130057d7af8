//! What was published, would be, and was before, for people.

use super::fleet_text::count_of;
use super::job_text::ago;
use super::paint::Paint;
use std::fmt::Write;
use zester_publish::{PastRevision, TreeDiff};
use zester_wire::{FileChanges, Problems, PublishReport, PublishStatus, Published, UnixMillis};

/// Letters of a commit that people read.
const COMMIT_SHOWN: usize = 10;
/// The widest line of a table.
const COLUMNS: usize = 80;
/// Peels that are named in a line.
const PEELS_SHOWN: usize = 10;

/// What became of each tree.
pub fn reports(reports: &[PublishReport], dry_run: bool, paint: Paint) -> String {
    let mut out = String::new();
    for report in reports {
        one(&mut out, report, dry_run, paint);
    }
    if dry_run {
        out.push_str("nothing was changed\n");
    }
    out
}

fn one(out: &mut String, report: &PublishReport, dry_run: bool, paint: Paint) {
    let what = format!("{:<9}", report.published.as_str());
    let (revision, from) = (report.revision, from(&report.source, &report.commit));
    let line = match report.status {
        PublishStatus::Published if dry_run => {
            let before = if revision == 0 { "nothing".into() } else { format!("revision {revision}") };
            format!("{} {what} {before} would be replaced by {from}", paint.yellow("~"))
        }
        PublishStatus::Published => format!(
            "{} {what} revision {revision}   {}, {} sent   {from}",
            paint.green("✓"),
            count_of(report.files as usize, "file"),
            bytes(report.bytes)
        ),
        PublishStatus::Unchanged => format!("= {what} revision {revision}   unchanged   {from}"),
        PublishStatus::Nothing => format!("· {what} nothing to publish   {from}"),
        PublishStatus::Refused => {
            let stays = if revision == 0 { String::new() } else { format!("; revision {revision} stays") };
            format!("{} {what} not published{stays}: {}   {from}", paint.red("✗"), report.reason)
        }
        PublishStatus::Unknown => format!("? {what} this master says what only a newer client knows"),
    };
    let _infallible = writeln!(out, "{}", line.trim_end());
    if report.status == PublishStatus::Published && !report.reason.is_empty() {
        let _infallible = writeln!(out, "    {} forced: {}", paint.yellow("!"), report.reason);
    }
    for warning in report.problems.iter().flat_map(|problems| &problems.warnings) {
        let _infallible = writeln!(out, "    {} {warning}", paint.yellow("!"));
    }
    if dry_run || report.status == PublishStatus::Refused {
        changes(out, &report.changes, paint);
    }
    if let Some(problems) = &report.problems {
        problems_text(out, problems);
    }
}

fn from(source: &str, commit: &str) -> String {
    match (source, short(commit)) {
        ("", _) => String::new(),
        (source, "") => source.to_string(),
        (source, commit) => format!("{source} at {commit}"),
    }
}

fn short(commit: &str) -> &str {
    commit.get(..COMMIT_SHOWN).unwrap_or(commit)
}

fn changes(out: &mut String, changes: &FileChanges, paint: Paint) {
    let sorts = [
        (paint.green("+"), &changes.added, changes.added_count),
        (paint.yellow("~"), &changes.changed, changes.changed_count),
        (paint.red("-"), &changes.removed, changes.removed_count),
    ];
    for (sign, paths, count) in sorts {
        for path in paths {
            let _infallible = writeln!(out, "    {sign} {path}");
        }
        let more = (count as usize).saturating_sub(paths.len());
        if more > 0 {
            let _infallible = writeln!(out, "    {sign} and {more} more");
        }
    }
}

fn problems_text(out: &mut String, problems: &Problems) {
    if problems.errors > 0 {
        out.push('\n');
        out.push_str(&problems.text);
        if !problems.text.ends_with('\n') {
            out.push('\n');
        }
        if problems.peels_count > 0 {
            let names: Vec<&str> =
                problems.peels.iter().take(PEELS_SHOWN).map(|peel| peel.as_str()).collect();
            let more = (problems.peels_count as usize).saturating_sub(names.len());
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let _infallible = writeln!(
                out,
                "does not compile for {}: {}{more}",
                count_of(problems.peels_count as usize, "peel"),
                names.join(", ")
            );
        }
    }
    if problems.checked < problems.known {
        let _infallible = writeln!(
            out,
            "compiled for {} of {}: the time was over",
            problems.checked,
            count_of(problems.known as usize, "peel")
        );
    }
}

/// The revisions of each tree, newest first.
pub fn history(trees: &[(Published, Vec<PastRevision>)], now: UnixMillis, paint: Paint) -> String {
    let mut out = String::new();
    for (published, revisions) in trees {
        if revisions.is_empty() {
            if trees.len() == 1 {
                let _infallible = writeln!(out, "no {} were ever published", published.as_str());
            }
            continue;
        }
        let _infallible = writeln!(out, "{}", paint.bold(published.as_str()));
        let head = format!(
            "  {:>5}  {:<12}  {:<10}  {:>6}  {:<14}  {}",
            "REV", "WHEN", "WHO", "FILES", "CHANGED", "FROM"
        );
        let _infallible = writeln!(out, "{}", paint.dim(&head));
        for past in revisions {
            let manifest = &past.manifest;
            let mark = if past.is_current { "*" } else { " " };
            let who = if manifest.user.is_empty() { manifest.master.name() } else { manifest.user.as_str() };
            let source = from(&manifest.source, &manifest.commit);
            let source = match manifest.rollback_of {
                Some(revision) => format!("revision {revision} again"),
                None if manifest.uploaded => format!("{source} (uploaded)"),
                None => source,
            };
            let line = format!(
                "{mark} {:>5}  {:<12}  {who:<10}  {:>6}  {:<14}",
                manifest.revision,
                ago(manifest.published, now),
                manifest.files,
                past.changes.as_ref().map_or_else(|| "?".to_string(), counts),
            );
            // What does not fit beside the others stands below them.
            let fits = line.chars().count() + 2 + source.chars().count() <= COLUMNS;
            let _infallible = match fits {
                true => writeln!(out, "{}", format!("{line}  {source}").trim_end()),
                false => writeln!(out, "{}\n         {source}", line.trim_end()),
            };
        }
    }
    if out.is_empty() {
        out.push_str("nothing was ever published\n");
    }
    out
}

fn counts(diff: &TreeDiff) -> String {
    format!("+{} ~{} -{}", diff.added.len(), diff.changed.len(), diff.removed.len())
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{}.{} kB", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{} MB", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::{ContentHash, Manifest, MasterId, PeelId};

    fn report(status: PublishStatus) -> PublishReport {
        PublishReport {
            published: Published::States,
            status,
            revision: 7,
            files: 12,
            moved: 2,
            bytes: 3_141,
            source: "/srv/zester/states".into(),
            commit: "9fceb02d0ae598e95dc970b74767f19372d61af8".into(),
            reason: "it does not compile: 1 error".into(),
            changes: FileChanges {
                added_count: 3,
                changed_count: 1,
                removed_count: 0,
                added: vec!["a.zy".into()],
                changed: vec!["web/init.zy".into()],
                removed: Vec::new(),
            },
            problems: None,
        }
    }

    #[test]
    #[rule("D-12")]
    fn d12_what_was_forced_and_what_somebody_should_know_is_told() {
        let problems = Problems {
            warnings: vec!["db.zy:3:4: the secret `p` is sealed for web-1, not for db-1".into()],
            ..Problems::default()
        };
        let told = PublishReport { problems: Some(problems), ..report(PublishStatus::Published) };
        assert_eq!(
            reports(&[told], false, Paint::new(false)),
            "✓ states    revision 7   12 files, 3.1 kB sent   /srv/zester/states at 9fceb02d0a\n    ! forced: it does not compile: 1 error\n    ! db.zy:3:4: the secret `p` is sealed for web-1, not for db-1\n"
        );
    }

    #[test]
    #[rule("D-12")]
    fn d12_a_history_is_no_wider_than_a_terminal() {
        let manifest = |revision: u64, source: &str, rollback_of| Manifest {
            v: 1,
            revision,
            root: ContentHash::of(b"x"),
            pages: Vec::new(),
            files: 12,
            bytes: 9,
            published: UnixMillis(0),
            master: MasterId::parse("m1.boot").unwrap(),
            user: "ann".into(),
            source: source.into(),
            commit: "9fceb02d0ae598e95dc970b74767f19372d61af8".into(),
            rollback_of,
            uploaded: false,
        };
        let past = |manifest| PastRevision { manifest, is_current: false, changes: None };
        let revisions = vec![past(manifest(2, "", Some(1))), past(manifest(1, "/srv/zester/states", None))];
        let told = history(&[(Published::States, revisions)], UnixMillis(0), Paint::new(false));
        assert!(told.lines().all(|line| line.chars().count() <= COLUMNS), "{told}");
        assert!(told.contains("  revision 1 again\n"), "{told}");
        assert!(told.ends_with("\n         /srv/zester/states at 9fceb02d0a\n"), "{told}");
    }

    #[test]
    #[rule("D-12")]
    fn d12_what_was_published_and_what_would_be_is_told_by_file() {
        let off = Paint::new(false);
        assert_eq!(
            reports(
                &[PublishReport { reason: String::new(), ..report(PublishStatus::Published) }],
                false,
                off
            ),
            "✓ states    revision 7   12 files, 3.1 kB sent   /srv/zester/states at 9fceb02d0a\n"
        );
        let problems = Problems {
            errors: 1,
            text: "error: no\n --> web/init.zy:1:1\n".into(),
            peels: vec![PeelId::parse("web-1").unwrap()],
            peels_count: 1,
            checked: 1,
            known: 3,
            ..Problems::default()
        };
        let told = PublishReport {
            problems: Some(problems),
            reason: String::new(),
            ..report(PublishStatus::Published)
        };
        assert_eq!(
            reports(&[told], true, off),
            "~ states    revision 7 would be replaced by /srv/zester/states at 9fceb02d0a\n    + a.zy\n    + and 2 more\n    ~ web/init.zy\n\nerror: no\n --> web/init.zy:1:1\ndoes not compile for 1 peel: web-1\ncompiled for 1 of 3 peels: the time was over\nnothing was changed\n"
        );
    }
}
