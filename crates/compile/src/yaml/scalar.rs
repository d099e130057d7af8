//! What a plain scalar means: YAML 1.1 as PyYAML and Salt read it, without its sexagesimal numbers and dates.

use zester_model::node::ScalarType;

/// Resolves a plain (unquoted) scalar.
///
/// `0644` is the number 644, as in Salt: whoever wants a mode reads the letters. `1:30` and dates stay text: a port
/// mapping read as 90 helps nobody.
pub fn scalar_type(text: &str) -> ScalarType {
    // Nearly every scalar is a word or a path: their first letter settles it without any further look.
    match text.as_bytes().first() {
        None => ScalarType::Null,
        Some(b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'y' | b'Y' | b'o' | b'O') => word(text),
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => number(text),
        Some(_) => ScalarType::Text,
    }
}

fn word(text: &str) -> ScalarType {
    match text {
        "~" | "null" | "Null" | "NULL" => ScalarType::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => ScalarType::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => ScalarType::Bool(false),
        _ => ScalarType::Text,
    }
}

fn number(text: &str) -> ScalarType {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { "-" } else { "" };
    if let Some(whole) = integer(sign, unsigned) {
        return ScalarType::Int(whole);
    }
    match float(sign, unsigned) {
        Some(value) => ScalarType::Float(value),
        None => ScalarType::Text,
    }
}

fn integer(sign: &str, unsigned: &str) -> Option<i64> {
    let (radix, digits) = match unsigned.get(..2) {
        Some("0x") => (16, &unsigned[2..]),
        Some("0o") => (8, &unsigned[2..]),
        Some("0b") => (2, &unsigned[2..]),
        _ => (10, unsigned),
    };
    let plausible = digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'_');
    if !plausible || digits.is_empty() || digits.starts_with('_') {
        return None;
    }
    let clean: String = sign.chars().chain(digits.chars().filter(|letter| *letter != '_')).collect();
    i64::from_str_radix(&clean, radix).ok()
}

/// YAML 1.1 wants the dot: `1e3` is text, `1.0e+3` a number.
fn float(sign: &str, unsigned: &str) -> Option<f64> {
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Some(if sign.is_empty() { f64::INFINITY } else { f64::NEG_INFINITY });
        }
        ".nan" | ".NaN" | ".NAN" => return Some(f64::NAN),
        _ => {}
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.')?;
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    if let Some(exponent) = exponent {
        let bare = exponent.strip_prefix(['+', '-'])?;
        if bare.is_empty() || !bare.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
    }
    let clean: String = sign.chars().chain(unsigned.chars().filter(|letter| *letter != '_')).collect();
    clean.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-9")]
    fn s9_plain_scalars_mean_what_salt_reads() {
        use ScalarType::{Bool, Float, Int, Null, Text};
        let table = [
            ("", Null),
            ("~", Null),
            ("null", Null),
            ("NULL", Null),
            ("nULL", Text),
            ("yes", Bool(true)),
            ("Yes", Bool(true)),
            ("on", Bool(true)),
            ("TRUE", Bool(true)),
            ("no", Bool(false)),
            ("Off", Bool(false)),
            ("y", Text),
            ("n", Text),
            ("yEs", Text),
            ("yesterday", Text),
            ("0", Int(0)),
            ("0644", Int(644)),
            ("08", Int(8)),
            ("0o644", Int(0o644)),
            ("0x1F", Int(31)),
            ("0b101", Int(5)),
            ("-17", Int(-17)),
            ("+5", Int(5)),
            ("1_000", Int(1000)),
            ("_1", Text),
            ("-", Text),
            ("+", Text),
            ("0x", Text),
            ("99999999999999999999", Text),
            ("1.10", Float(1.10)),
            (".5", Float(0.5)),
            ("5.", Float(5.0)),
            ("-1.5", Float(-1.5)),
            ("1.0e+3", Float(1000.0)),
            ("1e3", Text),
            ("1.2.3", Text),
            (".", Text),
            ("..", Text),
            ("1:30", Text),
            ("22:22", Text),
            ("2026-11-15", Text),
            ("12 Monkeys", Text),
            (".inf", Float(f64::INFINITY)),
            ("-.inf", Float(f64::NEG_INFINITY)),
            ("abc", Text),
            ("deadbeef", Text),
            ("10.0.0.1", Text),
            ("-x", Text),
            ("0o9", Text),
        ];
        for (text, expected) in table {
            assert_eq!(scalar_type(text), expected, "{text:?}");
        }
        assert!(matches!(scalar_type(".nan"), Float(value) if value.is_nan()));
    }
}
