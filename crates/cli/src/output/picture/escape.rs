//! What users wrote, made safe for where it is put.

use std::fmt::Write;

/// For the text and the attributes of XML and of HTML: one line, nothing that ends a tag, an attribute or the document.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            letter if is_unfit(letter) => {}
            letter => out.push(letter),
        }
    }
    out
}

/// JSON that may stand inside a `<script>`: no tag, no comment and no line separator of JavaScript survives.
///
/// All five characters can only stand inside a JSON string, where the escape means the same.
pub fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out
}

/// Control characters, what XML 1.0 has no place for, and marks that make a name read as another one.
fn is_unfit(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{fffe}' | '\u{ffff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_user_wrote_ends_a_tag_or_an_attribute() {
        assert_eq!(xml(r#"<a href="x" b='y'>&"#), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
    }

    #[test]
    fn control_characters_are_dropped_and_lines_become_one() {
        assert_eq!(xml("a\u{0}b\u{1b}[31mc\u{7f}\u{85}\u{ffff}\u{202e}d\ne\tf"), "ab[31mcd e f");
        assert_eq!(xml("größe 漢字 🍋"), "größe 漢字 🍋");
    }

    #[test]
    fn json_cannot_leave_its_script_and_still_means_the_same() {
        let text = "</script><!-- & \u{2028}\u{2029} \"quoted\"";
        let json = json_in_script(&serde_json::to_string(text).unwrap());
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
