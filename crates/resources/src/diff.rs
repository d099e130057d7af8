//! What changes in a file, in words that a human can judge.

use similar::{Algorithm, TextDiff};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use zester_model::limits::{DIFF_BYTES_MAX, DIFF_LINES_MAX};

/// Past this the diff is coarser, not slower.
const TIME_MAX: Duration = Duration::from_millis(500);

/// In the place of a line that not everybody may read.
const NOT_SHOWN: &str = "(not shown: not everybody may read it)\n";

fn is_text(content: &[u8]) -> bool {
    !content.contains(&0) && std::str::from_utf8(content).is_ok()
}

/// A unified diff, or one line where the content is binary or too large to show. `None` before: the file is
/// new.
pub(crate) fn of_content(path: &Path, before: Option<&[u8]>, after: &[u8]) -> String {
    let sizes = match before {
        Some(before) => format!("{} bytes → {} bytes", before.len(), after.len()),
        None => format!("new, {} bytes", after.len()),
    };
    let old = before.unwrap_or_default();
    if !is_text(old) || !is_text(after) {
        return format!("binary file, {sizes}\n");
    }
    if old.len() > DIFF_BYTES_MAX || after.len() > DIFF_BYTES_MAX {
        return format!("large file, {sizes}\n");
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(after));
    let mut config = TextDiff::configure();
    let diff = config.algorithm(Algorithm::Patience).timeout(TIME_MAX).diff_lines(&*old, &*new);
    let name = path.display().to_string();
    let from = if before.is_some() { name.as_str() } else { "/dev/null" };
    capped(diff.unified_diff().context_radius(3).header(from, &name).to_string())
}

/// The same for a file that not everybody may read: what goes is not shown, it may be the secret of yesterday. Of an edit,
/// which knows what it adds and not what is around it, only lines are shown that replace no other and that were nowhere before.
pub(crate) fn of_private(path: &Path, before: &[u8], after: &[u8], edits: bool) -> String {
    let text = of_content(path, Some(before), after);
    let mut shown = String::with_capacity(text.len());
    let mut replaces = false;
    let old = String::from_utf8_lossy(before);
    let old: HashSet<&str> = old.lines().map(str::trim).collect();
    let was_there = |line: &str| line.get(1..).is_some_and(|line| old.contains(line.trim()));
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let sort = line.chars().next().unwrap_or(' ');
        replaces = sort == '-' || (sort == '+' && replaces);
        let hidden = at > 1
            && (sort == '-' || (edits && (sort == ' ' || (sort == '+' && (replaces || was_there(line))))));
        match hidden {
            true => shown.extend([sort].into_iter().chain(NOT_SHOWN.chars())),
            false => shown.push_str(line),
        }
    }
    shown
}

fn capped(text: String) -> String {
    let lines = text.lines().count();
    if lines <= DIFF_LINES_MAX {
        return text;
    }
    let mut kept: String = text.split_inclusive('\n').take(DIFF_LINES_MAX).collect();
    kept.push_str(&format!("[... {} more lines ...]\n", lines - DIFF_LINES_MAX));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    fn a_text_shows_its_lines_and_a_binary_only_its_size() {
        let path = Path::new("/f");
        let diff = of_content(path, Some(b"old\nsame\n"), b"new\nsame\n");
        assert_eq!(diff, "--- /f\n+++ /f\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n");
        assert_eq!(of_content(path, Some(b"a\0"), b"abc"), "binary file, 2 bytes → 3 bytes\n");
        assert!(of_content(path, None, b"x\n").starts_with("--- /dev/null\n+++ /f\n"));
    }

    #[test]
    #[rule("S-30")]
    fn s30_a_private_line_that_an_edit_moves_is_not_shown_as_a_new_one() {
        let before = b"  password hunter2\nalpha\nbeta\ngamma\n";
        let after = b"alpha\nbeta\ngamma\npassword hunter2\nnew\n";
        let diff = of_private(Path::new("/f"), before, after, true);
        assert!(!diff.contains("hunter2") && !diff.contains("alpha"), "{diff}");
        assert!(diff.contains("\n+new\n"), "{diff}");
        // A state that has the whole content has every line of it.
        let diff = of_private(Path::new("/f"), before, after, false);
        assert!(diff.contains("+password hunter2") && !diff.contains("-  password"), "{diff}");
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let after = "line\n".repeat(DIFF_LINES_MAX * 2);
        let diff = of_content(Path::new("/f"), None, after.as_bytes());
        assert_eq!(diff.lines().count(), DIFF_LINES_MAX + 1);
        assert!(diff.ends_with("more lines ...]\n"));
    }
}
