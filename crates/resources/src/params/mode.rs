//! Permission bits.

use std::str::FromStr;

/// `0644`, `"0644"`, `644` and `0o644` are the same mode.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mode(pub u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0o").unwrap_or(digits);
        match u32::from_str_radix(digits, 8) {
            Ok(mode) if mode <= 0o7777 && !digits.starts_with('+') => Ok(Mode(mode)),
            _ => Err(format!("`{text}` is not a mode; write octal digits like `0644`")),
        }
    }
}

super::from_text!(Mode, "mode like `0644`", str::parse);

/// Permissions, or those of the source.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileMode {
    Keep,
    Bits(Mode),
}

super::from_text!(FileMode, "mode like `0644`, or `keep`", |text| match text {
    "keep" => Ok(FileMode::Keep),
    bits => bits.parse().map(FileMode::Bits),
});

#[cfg(test)]
mod tests {
    use super::*;
    use zester_model::node::{Node, Scalar, ScalarType, Value};
    use zester_model::source::{FileId, Span};
    use zester_rule::rule;

    fn read(text: &str, scalar_type: ScalarType) -> Result<Mode, String> {
        let span = Span::start_of(FileId(0));
        let node = Node { span, value: Value::Scalar(Scalar { text: text.into(), scalar_type }) };
        node.read().map_err(|mismatch| mismatch.message)
    }

    #[test]
    #[rule("S-9")]
    fn s9_a_mode_means_the_same_quoted_and_plain() {
        assert_eq!(read("0644", ScalarType::Int(420)), Ok(Mode(0o644)));
        assert_eq!(read("0644", ScalarType::Text), Ok(Mode(0o644)));
        assert_eq!(read("640", ScalarType::Int(640)), Ok(Mode(0o640)));
        assert_eq!(read("0o1777", ScalarType::Text), Ok(Mode(0o1777)));
    }

    #[test]
    #[rule("S-3")]
    fn s3_what_is_no_mode_is_refused() {
        for text in ["0999", "rw-r--r--", "", "10000", "-1", "+644"] {
            assert!(read(text, ScalarType::Text).is_err_and(|why| why.contains("is not a mode")), "{text}");
        }
    }
}
