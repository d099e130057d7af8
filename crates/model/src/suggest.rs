//! "Did you mean …?": the nearest known names to a wrong one.

/// The edit distance (insert, delete, replace, swap of neighbours), or `None` when it exceeds `max`.
fn distance(left: &[char], right: &[char], max: usize) -> Option<usize> {
    if left.len().abs_diff(right.len()) > max {
        return None;
    }
    let width = right.len() + 1;
    let mut before: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for i in 1..=left.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let cost = usize::from(left[i - 1] != right[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + cost);
            let swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    Some(last[right.len()]).filter(|found| *found <= max)
}

/// Up to `count` of `known` that are close to `wrong` and as close as any.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let wrong: Vec<char> = wrong.to_lowercase().chars().take(200).collect();
    let max = (wrong.len() / 3).clamp(1, 6);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let lower: Vec<char> = name.to_lowercase().chars().take(200).collect();
            distance(&wrong, &lower, max).map(|far| (far, name))
        })
        .collect();
    found.sort();
    found.dedup();
    let best = found.first().map_or(0, |(far, _)| *far);
    found.into_iter().take_while(|(far, _)| *far == best).take(count).map(|(_, name)| name).collect()
}

/// ``did you mean `content`?`` or, for several, ``did you mean `a`, `b` or `c`?``.
pub fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> = nearest(wrong, known, 3).iter().map(|name| format!("`{name}`")).collect();
    let (last, rest) = names.split_last()?;
    Some(match rest {
        [] => format!("did you mean {last}?"),
        _ => format!("did you mean {} or {last}?", rest.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-3")]
    fn s3_the_nearest_name_is_suggested_and_a_stranger_is_not() {
        let known = ["content", "contents", "source", "mode"];
        assert_eq!(did_you_mean("contnet", known).as_deref(), Some("did you mean `content`?"));
        assert_eq!(
            did_you_mean("mdoe", ["mode", "made", "moe"]).as_deref(),
            Some("did you mean `mode` or `moe`?")
        );
        assert_eq!(did_you_mean("sosurce", known).as_deref(), Some("did you mean `source`?"));
        assert_eq!(did_you_mean("zzzzzz", known), None);
    }
}
