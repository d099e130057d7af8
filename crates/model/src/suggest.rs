//! "Did you mean …?": the nearest known names to a wrong one.

/// Letters of a name that are looked at.
const LETTERS_MAX: usize = 200;

/// Up to `count` of `known` that are close to `wrong` and as close as any.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let shortened = |name: &str| -> String { name.to_lowercase().chars().take(LETTERS_MAX).collect() };
    let wrong = shortened(wrong);
    let max = (wrong.chars().count() / 3).clamp(1, 6);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            // Insert, delete, replace, and swap of neighbours.
            let far = strsim::osa_distance(&wrong, &shortened(name));
            (far <= max).then_some((far, name))
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
