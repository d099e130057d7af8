//! Looking a value up by a nested key, and comparing it with what the expression says.

use super::glob::Glob;
use serde_json::Value;
use std::cmp::Ordering;

/// How a value is compared.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Operator::NotEqual => ordering.is_ne(),
            Operator::Less => ordering.is_lt(),
            Operator::LessOrEqual => ordering.is_le(),
            Operator::Greater => ordering.is_gt(),
            Operator::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// What the right side of a comparison says.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// In lower case.
    pub text: String,
    pub number: Option<Number>,
    /// Where the text holds glob characters.
    pub glob: Option<Glob>,
}

/// A test of facts or settings.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// `key:value`, in every way that the colons can be read: `a:b:c` is key `a:b` with `c`, or key `a` with `b:c` (which
    /// is how an address with colons is found).
    Equal(Vec<(String, Pattern)>),
    Compare {
        key: String,
        operator: Operator,
        pattern: Pattern,
    },
}

impl Test {
    pub fn matches(&self, data: &Value) -> bool {
        match self {
            Test::Equal(readings) => {
                readings.iter().any(|(key, pattern)| any_at(data, key, &mut |found| pattern.equals(found)))
            }
            Test::Compare { key, operator: Operator::NotEqual, pattern } => {
                !any_at(data, key, &mut |found| pattern.equals(found))
            }
            Test::Compare { key, operator, pattern } => {
                any_at(data, key, &mut |found| pattern.compares(found, *operator))
            }
        }
    }
}

impl Test {
    /// What stands at the key, in words: `os is Arch`, or that there is nothing. `noun`: a fact, or a setting.
    pub fn found(&self, data: &Value, noun: &str) -> String {
        let keys: Vec<&str> = match self {
            Test::Equal(readings) => readings.iter().map(|(key, _)| key.as_str()).collect(),
            Test::Compare { key, .. } => vec![key],
        };
        // The longest key at which something stands is what was meant. A map on the way is not it, but for the last key.
        let mut missing = keys.first().copied().unwrap_or_default();
        for (place, key) in keys.iter().enumerate().rev() {
            let mut values: Vec<Value> = Vec::new();
            any_at(data, key, &mut |value| {
                values.push(value.clone());
                values.len() >= FOUND_MAX
            });
            match values.as_slice() {
                [] => {}
                [Value::Object(_)] if place + 1 < keys.len() => {
                    missing = keys[place + 1];
                    break;
                }
                [one] => return format!("{key} is {}", shown(one)),
                several => {
                    let all: Vec<String> = several.iter().map(shown).collect();
                    return format!("{key} is {}", all.join(", "));
                }
            }
        }
        format!("there is no {noun} {missing}")
    }
}

/// Values that one key is told with: a list on the way may have many.
const FOUND_MAX: usize = 4;

/// A value as a person would write it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.is_empty() => "empty".into(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let some: Vec<String> = list.iter().take(FOUND_MAX).map(shown).collect();
            let more = if list.len() > FOUND_MAX { ", …" } else { "" };
            format!("[{}{more}]", some.join(", "))
        }
        Value::Object(_) => "a map".into(),
    }
}

/// Whether the test holds for some value at a key. Both `.` and `:` nest, yet a key may itself contain them, so every way
/// to cut is tried. A list is entered by index, or as each of its elements.
fn any_at(data: &Value, key: &str, test: &mut dyn FnMut(&Value) -> bool) -> bool {
    match data {
        Value::Object(map) => {
            let cuts = key.match_indices(['.', ':']).map(|(cut, _)| cut);
            map.get(key).is_some_and(&mut *test)
                || cuts
                    .into_iter()
                    .any(|cut| map.get(&key[..cut]).is_some_and(|inner| any_at(inner, &key[cut + 1..], test)))
        }
        Value::Array(list) => {
            let (first, rest) = match key.split_once(['.', ':']) {
                Some((first, rest)) => (first, Some(rest)),
                None => (key, None),
            };
            let indexed = first.parse().ok().and_then(|index: usize| list.get(index));
            let at_index = match (indexed, rest) {
                (Some(element), Some(rest)) => any_at(element, rest, test),
                (Some(element), None) => test(element),
                (None, _) => false,
            };
            at_index || list.iter().any(|element| any_at(element, key, test))
        }
        _ => false,
    }
}

impl Pattern {
    fn equals(&self, value: &Value) -> bool {
        match value {
            Value::Null => self.text == "null" || self.text == "none" || self.matches_text(""),
            Value::Bool(value) => self.matches_text(if *value { "true" } else { "false" }),
            Value::Number(value) => match (Number::of(value), self.number) {
                (Some(left), Some(right)) => left.compare(right) == Some(Ordering::Equal),
                _ => self.matches_text(&value.to_string()),
            },
            // A version such as "22.10" is a text: it does not equal 22.1.
            Value::String(value) => self.matches_text(value),
            Value::Array(list) => list.iter().any(|element| self.equals(element)),
            // `key:*` asks whether the key is there.
            Value::Object(_) => self.text == "*",
        }
    }

    fn matches_text(&self, text: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.matches(&text.to_lowercase()),
            None => text.to_lowercase() == self.text,
        }
    }

    fn compares(&self, value: &Value, operator: Operator) -> bool {
        let ordering = match value {
            Value::Number(value) => match (Number::of(value), self.number) {
                (Some(left), Some(right)) => left.compare(right),
                _ => None,
            },
            Value::String(value) => match (Number::parse(value), self.number) {
                (Some(left), Some(right)) => left.compare(right),
                _ => Some(natural(&value.to_lowercase(), &self.text)),
            },
            Value::Array(list) => return list.iter().any(|element| self.compares(element, operator)),
            Value::Null | Value::Bool(_) | Value::Object(_) => None,
        };
        ordering.is_some_and(|ordering| operator.holds(ordering))
    }
}

/// A number as written: integers stay exact.
#[derive(Copy, Clone, Debug)]
pub(super) enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    pub fn parse(text: &str) -> Option<Number> {
        // Rust also reads `inf` and `nan`, which are words to a user.
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            return None;
        }
        let whole = text.parse().ok().map(Number::Whole);
        whole.or_else(|| text.parse().ok().filter(|real: &f64| real.is_finite()).map(Number::Real))
    }

    fn of(number: &serde_json::Number) -> Option<Number> {
        let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        whole.map(Number::Whole).or_else(|| number.as_f64().map(Number::Real))
    }

    fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Whole(left), Number::Whole(right)) => Some(left.cmp(&right)),
            (left, right) => left.real().partial_cmp(&right.real()),
        }
    }

    fn real(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Real(real) => real,
        }
    }
}

/// Orders texts as people do versions: runs of digits by their value, the rest by character. `6.10.1` is above `6.2`.
fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left, right);
    loop {
        let (Some(a), Some(b)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len());
        };
        let ordering = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (one, other) = (take_digits(&mut left), take_digits(&mut right));
            // Without leading zeros, the longer run is the larger number.
            one.len().cmp(&other.len()).then_with(|| one.cmp(other))
        } else {
            left = &left[a.len_utf8()..];
            right = &right[b.len_utf8()..];
            a.cmp(&b)
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
}

/// Cuts the leading digits off, and gives them without leading zeros.
fn take_digits<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    digits.trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-8")]
    fn d8_texts_order_as_versions_do() {
        for (left, right, ordering) in [
            ("6.10.1", "6.2", Ordering::Greater),
            ("6.2", "6.2.0", Ordering::Less),
            ("6.02", "6.2", Ordering::Equal),
            ("a10", "a9", Ordering::Greater),
            ("bookworm", "trixie", Ordering::Less),
            ("", "", Ordering::Equal),
            ("99999999999999999999999", "100000000000000000000000", Ordering::Less),
        ] {
            assert_eq!(natural(left, right), ordering, "{left} {right}");
        }
    }

    #[test]
    #[rule("D-8")]
    fn d8_only_digits_make_numbers() {
        for text in ["nan", "inf", "-infinity", "", "-", "1.2.3", "0x10", "12a"] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
        for text in ["1", "-1", "+1.5", ".5", "1e3"] {
            assert!(Number::parse(text).is_some(), "{text}");
        }
    }
}
