//! Values written as Python writes them: `True`, `None`, `['a', 1.0]`.
//!
//! Templates come from a world where this is what `{{ … }}`, `~` and `join` yield, and managed files must get the same
//! bytes here (S-49).

use minijinja::value::{Value, ValueKind};
use zester_model::limits::YAML_DEPTH_MAX;

/// Python's `str(value)`.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_text(value, &mut out);
    out
}

/// The same into a writer, which may refuse more.
pub fn write_text(value: &Value, out: &mut impl std::fmt::Write) -> std::fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None => write_repr(value, 0, out),
    }
}

/// Python's `repr(value)`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    let _ = write_repr(value, 0, &mut out);
    out
}

fn write_repr(value: &Value, depth: usize, out: &mut impl std::fmt::Write) -> std::fmt::Result {
    if depth > YAML_DEPTH_MAX {
        return out.write_str("...");
    }
    match value.kind() {
        ValueKind::None => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.write_str(&float(number)),
            Err(_) => write!(out, "{value}"),
        },
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = value.is_tuple();
            out.write_char(if tuple { '(' } else { '[' })?;
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                if count > 0 {
                    out.write_str(", ")?;
                }
                write_repr(&item, depth + 1, out)?;
                count += 1;
            }
            if tuple && count == 1 {
                out.write_char(',')?;
            }
            out.write_char(if tuple { ')' } else { ']' })
        }
        ValueKind::Map => {
            out.write_char('{')?;
            for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
                if index > 0 {
                    out.write_str(", ")?;
                }
                write_repr(&key, depth + 1, out)?;
                out.write_str(": ")?;
                write_repr(&value.get_item(&key).unwrap_or_default(), depth + 1, out)?;
            }
            out.write_char('}')
        }
        _ => write!(out, "{value}"),
    }
}

/// A text in the quotes that Python would choose.
fn quoted(text: &str, out: &mut impl std::fmt::Write) -> std::fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for letter in text.chars() {
        match letter {
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            letter if letter == quote => write!(out, "\\{letter}")?,
            letter if (letter as u32) < 0x20 || letter as u32 == 0x7f => {
                write!(out, "\\x{:02x}", letter as u32)?;
            }
            letter => out.write_char(letter)?,
        }
    }
    out.write_char(quote)
}

/// The shortest digits that mean the number, in Python's notation.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&power) || number == 0.0 {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-49")]
    fn s49_values_are_written_as_python_writes_them() {
        for (number, wanted) in [
            (1.0, "1.0"),
            (1.5, "1.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e20, "1e+20"),
            (1e-7, "1e-07"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (-2.5e-5, "-2.5e-05"),
        ] {
            assert_eq!(float(number), wanted);
        }
        let list =
            Value::from(vec![Value::from("it's"), Value::from("q\""), Value::from(()), Value::from(true)]);
        assert_eq!(text(&list), r#"["it's", 'q"', None, True]"#);
        assert_eq!(text(&Value::from("plain\n")), "plain\n");
        assert_eq!(repr(&Value::from("a\tb'\"")), r#"'a\tb\'"'"#);
    }
}
