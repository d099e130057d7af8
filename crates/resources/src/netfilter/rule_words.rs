//! The words of a rule, in a form in which two ways to write it look alike.

/// Long and short names of one option.
const NAMES: [(&str, &str); 10] = [
    ("--protocol", "-p"),
    ("--proto", "-p"),
    ("--source", "-s"),
    ("--src", "-s"),
    ("--destination", "-d"),
    ("--dst", "-d"),
    ("--in-interface", "-i"),
    ("--out-interface", "-o"),
    ("--jump", "-j"),
    ("--match", "-m"),
];

/// Options with their values, sorted; a module that only goes with a protocol is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleWords(Vec<(bool, String, Vec<String>)>);

impl RuleWords {
    pub(crate) fn of(words: &[String]) -> RuleWords {
        let mut options: Vec<(bool, String, Vec<String>)> = Vec::new();
        let mut negated = false;
        for word in words {
            if word == "!" {
                negated = true;
            } else if word.starts_with('-') && word.parse::<i64>().is_err() {
                let name =
                    NAMES.iter().find(|(long, _)| long == word).map_or(word.as_str(), |(_, short)| *short);
                options.push((std::mem::take(&mut negated), name.to_string(), Vec::new()));
            } else if let Some((_, _, values)) = options.last_mut() {
                values.push(word.clone());
            }
        }
        let protocol = options
            .iter()
            .find(|(_, name, _)| name == "-p")
            .and_then(|(_, _, values)| values.first().cloned());
        options.retain(|(_, name, values)| !(name == "-m" && values.first() == protocol.as_ref()));
        for (_, name, values) in &mut options {
            values.iter_mut().for_each(|value| *value = plain(name, value));
        }
        options.sort();
        RuleWords(options)
    }

    /// Of a line as it is saved.
    pub(crate) fn of_line(line: &str) -> RuleWords {
        RuleWords::of(&shlex::split(line).unwrap_or_default())
    }
}

/// One address is a network of one; a list has no order.
fn plain(option: &str, value: &str) -> String {
    if option == "-s" || option == "-d" {
        return value.trim_end_matches("/32").trim_end_matches("/128").to_string();
    }
    if !option.contains("comment") && !option.contains("prefix") && value.contains(',') {
        let mut parts: Vec<&str> = value.split(',').collect();
        parts.sort_unstable();
        return parts.join(",");
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ways_to_write_a_rule_look_alike() {
        let same = |one: &str, other: &str| RuleWords::of_line(one) == RuleWords::of_line(other);
        assert!(same("-p tcp --dport 22 -j ACCEPT", "-p tcp -m tcp --dport 22 -j ACCEPT"));
        assert!(same("--source 10.0.0.1 --jump DROP", "-s 10.0.0.1/32 -j DROP"));
        assert!(same(
            "-m state --state RELATED,ESTABLISHED -j A",
            "-m state --state ESTABLISHED,RELATED -j A"
        ));
        assert!(same("-m comment --comment 'two words' -j A", "-m comment --comment \"two words\" -j A"));
        assert!(!same("! -s 10.0.0.1 -j A", "-s 10.0.0.1 -j A"));
        assert!(!same("-p tcp --dport 22 -j A", "-p tcp --dport 23 -j A"));
    }
}
