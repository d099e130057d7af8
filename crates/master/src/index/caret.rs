//! A mistake in an expression, shown under the character where it is.

use zester_model::target::TargetError;
use zester_wire::{Refusal, RefusalKind};

/// How much of a long expression is shown on each side of the mistake.
const SHOWN_EACH_SIDE: usize = 60;

/// The expression, a `^` under the offending character, and the hint if there is one.
pub fn point_at(expression: &str, error: &TargetError) -> String {
    let before = expression.get(..error.offset).unwrap_or(expression);
    let after = expression.get(error.offset..).unwrap_or("");
    let skipped = before.chars().count().saturating_sub(SHOWN_EACH_SIDE);
    let start: String = before.chars().skip(skipped).map(printable).collect();
    let rest: String = after.chars().take(SHOWN_EACH_SIDE).map(printable).collect();
    let lead = if skipped > 0 { "…" } else { "" };
    let trail = if after.chars().nth(SHOWN_EACH_SIDE).is_some() { "…" } else { "" };
    let indent = " ".repeat(lead.chars().count() + start.chars().count());
    let mut text = format!("  {lead}{start}{rest}{trail}\n  {indent}^");
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\n  hint: {hint}"));
    }
    text
}

/// The same as the answer to a request.
pub fn bad_target(expression: &str, error: &TargetError) -> Refusal {
    let message = format!("{}\n{}", error.message, point_at(expression, error));
    Refusal { hint: error.hint.clone().unwrap_or_default(), ..Refusal::new(RefusalKind::BadTarget, message) }
}

/// What a stranger sent goes to a terminal: control characters would move the caret, or worse.
fn printable(char: char) -> char {
    if char.is_control() { ' ' } else { char }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_model::target::Target;
    use zester_rule::rule;

    fn shown(expression: &str) -> String {
        bad_target(expression, &Target::parse(expression).unwrap_err()).message
    }

    #[test]
    #[rule("D-8")]
    fn d8_a_mistake_is_pointed_at() {
        let text = shown("web* and (db1");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  web* and (db1");
        assert!(lines[2].ends_with('^'), "{text}");
        let text = shown("web1 X@a");
        assert!(text.contains("\n  web1 X@a\n       ^"), "{text}");
    }

    #[test]
    #[rule("D-8")]
    fn d8_a_long_expression_is_cut_around_the_mistake() {
        let expression = format!("{} )", "web* or ".repeat(100) + "web1");
        let text = shown(&expression);
        assert!(text.lines().all(|line| line.chars().count() < 140), "{text}");
        let caret = text.lines().nth(2).unwrap().chars().count() - 1;
        assert_eq!(text.lines().nth(1).unwrap().chars().nth(caret), Some(')'), "{text}");
    }

    #[test]
    #[rule("D-8")]
    fn d8_control_characters_do_not_move_the_caret() {
        let text = shown("\u{1b}[2Jweb1 )");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
