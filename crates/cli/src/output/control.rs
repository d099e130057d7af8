//! Characters that would steer the terminal instead of being read: in the id of a state, in a file, in what a command said.

/// The parameters of a colour sequence that may pass; what hides or blinks text does not.
const COLOURS: [&str; 13] = ["0", "1", "2", "3", "4", "22", "30", "31", "32", "33", "34", "35", "36"];

/// Text for people: lines and tabs stay, and colours where there are any; every other control character is shown.
pub fn shown(text: &str, colour: bool) -> String {
    if text.bytes().all(|byte| is_plain(byte) || matches!(byte, b'\n' | b'\t')) {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = colour_sequence(rest).filter(|_| colour) {
            let (sequence, after) = rest.split_at(length);
            out.push_str(sequence);
            rest = after;
            continue;
        }
        match first {
            '\n' | '\t' => out.push(first),
            _ => push(&mut out, first),
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    out
}

/// A name, which is one line whatever it holds.
pub fn one_line(text: &str) -> String {
    if text.bytes().all(is_plain) {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|letter| push(&mut out, letter));
    out
}

/// Nearly all that is ever shown, and nothing in it to look at letter by letter.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn push(out: &mut String, letter: char) {
    match letter {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        letter if letter.is_control() => out.push_str(&format!("\\x{:02x}", letter as u32)),
        letter => out.push(letter),
    }
}

/// How long the colour sequence is that a text begins with.
fn colour_sequence(text: &str) -> Option<usize> {
    let body = text.strip_prefix("\x1b[")?;
    let end = body.find(|letter: char| !letter.is_ascii_digit() && letter != ';')?;
    let (parameters, rest) = body.split_at(end);
    let known =
        |parameter: &str| parameter.is_empty() || COLOURS.contains(&parameter) || is_bright(parameter);
    (rest.starts_with('m') && parameters.split(';').all(known)).then_some("\x1b[".len() + end + 1)
}

fn is_bright(parameter: &str) -> bool {
    parameter.parse::<u8>().is_ok_and(|number| (90..=97).contains(&number) || number == 37 || number == 39)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_the_terminal_is_shown_instead() {
        let text = "a\x1b[2Jb\r\n\tc\u{9b}31m\x07\x7f\x1b[8mé";
        let seen = "a\\x1b[2Jb\\r\n\tc\\x9b31m\\x07\\x7f\\x1b[8mé";
        assert_eq!(shown(text, false), seen);
        assert_eq!(shown(text, true), seen);
        assert_eq!(one_line("a\nb\tc\x1b"), "a\\nb\\tc\\x1b");
    }

    #[test]
    fn colours_pass_only_where_there_are_colours() {
        let painted = "\x1b[1m\x1b[31mred\x1b[0m \x1b[1;94mblue\x1b[0m";
        assert_eq!(shown(painted, true), painted);
        assert!(!shown(painted, false).contains('\x1b'));
        assert_eq!(shown("\x1b[31", true), "\\x1b[31", "one that does not end is none");
    }
}
