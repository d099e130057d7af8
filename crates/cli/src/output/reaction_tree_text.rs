//! All that came of one event, as a tree for people.

use super::control::one_line;
use super::event_text::clock;
use super::paint::Paint;
use super::reactor_text::what;
use super::shell::cut;
use super::wrap::WIDTH;
use zester_client::{EventTree, JobTree, ReactionTree};

/// Peels of one job that are shown one by one.
const RETURNS_SHOWN: usize = 10;

/// One line, and what hangs below it.
struct Branch {
    line: String,
    below: Vec<Branch>,
}

pub fn text(tree: &EventTree, paint: Paint) -> String {
    let root = event(tree, paint);
    let mut out = format!("{}\n", root.line);
    draw(&root.below, "", &mut out);
    out
}

fn draw(branches: &[Branch], margin: &str, out: &mut String) {
    for (place, branch) in branches.iter().enumerate() {
        let last = place + 1 == branches.len();
        let (sign, further) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        out.push_str(&format!("{margin}{sign}{}\n", branch.line));
        draw(&branch.below, &format!("{margin}{further}"), out);
    }
}

fn leaf(line: String) -> Branch {
    Branch { line, below: Vec::new() }
}

fn event(tree: &EventTree, paint: Paint) -> Branch {
    let mut line = match &tree.event {
        Some(seen) => {
            let key = paint.cyan(&one_line(&seen.subject.match_key()));
            let when = paint.dim(&format!("{}  {}", clock(seen.at), one_line(&tree.id)));
            match seen.event.depth {
                0 => format!("event {key}  {when}"),
                depth => format!("event {key}  {when}  depth {depth}"),
            }
        }
        None => format!("event {}  {}", one_line(&tree.id), paint.dim("(no longer in the stream)")),
    };
    if tree.cut {
        line.push_str(&paint.yellow("  (goes on; see above, or show it by its id)"));
    }
    let mut below: Vec<Branch> = tree.reactions.iter().map(|one| reaction(one, paint)).collect();
    if below.is_empty() && !tree.cut {
        below.push(leaf(paint.dim("no rule reacted, or none has yet")));
    }
    Branch { line, below }
}

fn reaction(tree: &ReactionTree, paint: Paint) -> Branch {
    let sign = if tree.again { paint.yellow("↻ again: ") } else { String::new() };
    let mut below: Vec<Branch> = tree.job.iter().map(|one| job(one, paint)).collect();
    if tree.entry.jid.is_some() && tree.job.is_none() {
        below.push(leaf(paint.dim("its job is no longer kept")));
    }
    below.extend(tree.sent.iter().map(|one| event(one, paint)));
    Branch { line: format!("{sign}{}", what(&tree.entry, paint)), below }
}

fn job(tree: &JobTree, paint: Paint) -> Branch {
    let JobTree { job, returns, events } = tree;
    let status = match job.status.as_str() {
        "complete" => paint.green("complete"),
        "failed" => paint.red("failed"),
        other => paint.yellow(other),
    };
    let line = format!("job {}  {status}", job.jid);
    let mut below: Vec<Branch> = Vec::new();
    for (peel, ret) in returns.iter().take(RETURNS_SHOWN) {
        below.push(leaf(match ret.success {
            true => format!("{} {peel}", paint.green("✓")),
            false => format!("{} {peel}  {}", paint.red("✗"), cut(&one_line(&ret.error), WIDTH)),
        }));
    }
    if returns.len() > RETURNS_SHOWN {
        let more = returns.len() - RETURNS_SHOWN;
        below.push(leaf(paint.dim(&format!("and {more} more: zester job show {}", job.jid))));
    }
    let silent = (job.target_count() as usize).saturating_sub(returns.len());
    if silent > 0 {
        below.push(leaf(paint.yellow(&format!("{silent} without a return yet"))));
    }
    below.extend(events.iter().map(|one| event(one, paint)));
    Branch { line, below }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use zester_client::SeenEvent;
    use zester_rule::rule;
    use zester_wire::{Event, EventSubject, LedgerEntry, PeelId, Tag, UnixMillis};

    fn tree(id: &str, depth: u32, reactions: Vec<ReactionTree>) -> EventTree {
        let tag = Tag::parse("deploy/done").unwrap();
        let subject = EventSubject::Send { peel: PeelId::parse("web-1").unwrap(), tag: tag.clone() };
        let event = Event {
            id: id.into(),
            tag,
            data: Map::new(),
            ts: UnixMillis(0),
            v: 1,
            origin: String::new(),
            depth,
        };
        let seen = SeenEvent { subject, event, at: UnixMillis(61_000), sequence: Some(1) };
        EventTree { id: id.into(), event: Some(seen), reactions, cut: false }
    }

    fn reacted(decision: &str, reason: &str, again: bool, sent: Option<EventTree>) -> ReactionTree {
        let entry = LedgerEntry {
            rule: "reactor.loop".into(),
            block: "b\u{1b}".into(),
            decision: decision.into(),
            reason: reason.into(),
            ..LedgerEntry::default()
        };
        ReactionTree { entry, again, job: None, sent }
    }

    #[test]
    #[rule("R-22")]
    fn r22_a_loop_can_be_seen_in_the_tree() {
        let last =
            tree("third-event-of-the-chain", 2, vec![reacted("refused", "depth 3 is the cap", true, None)]);
        let second = tree("second", 1, vec![reacted("sent", "deploy/done", true, Some(last))]);
        let first = tree("first", 0, vec![reacted("sent", "deploy/done", false, Some(second))]);
        let drawn = "\
event web-1/deploy/done  00:01:01  first
└─ reactor.loop b\\x1b: sent  deploy/done
   └─ event web-1/deploy/done  00:01:01  second  depth 1
      └─ ↻ again: reactor.loop b\\x1b: sent  deploy/done
         └─ event web-1/deploy/done  00:01:01  third-event-of-the-chain  depth 2
            └─ ↻ again: reactor.loop b\\x1b: refused  depth 3 is the cap
";
        assert_eq!(text(&first, Paint::new(false)), drawn);
        let alone = text(&tree("alone", 0, Vec::new()), Paint::new(false));
        assert!(alone.ends_with("└─ no rule reacted, or none has yet\n"), "{alone}");
    }
}
