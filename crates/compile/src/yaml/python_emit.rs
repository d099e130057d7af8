//! Data as YAML in the letters that PyYAML with libyaml would choose: what `yaml` and `slsutil.serialize` yield stands in managed files,
//! and those are to be the same bytes that Salt writes.
//!
//! [`super::emit`] is for everything else: it never folds a line and quotes more.

use regex::Regex;
use serde_json::{Map, Value as Json};
use std::sync::LazyLock;

/// A line that is longer than this is folded at its next blank.
const WIDTH: usize = 80;
/// How far what belongs to something stands in.
const STEP: usize = 2;

/// Texts that YAML 1.1 takes for something else: truth values, nothing, numbers, times, and two signs.
static OTHERWISE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let truth = "yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF";
    let nothing = "~|null|Null|NULL|<<|=";
    let whole = r"[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])+)";
    let broken = r"[-+]?([0-9][0-9_]*)\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?";
    let other = r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)";
    let time = r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?([ \t]*(Z|[-+][0-9]{1,2}(:[0-9]{2})?))?";
    Regex::new(&format!("^(?:{truth}|{nothing}|{whole}|{broken}|{other}|{time})$")).ok()
});

/// On one line as far as it goes: `{a: [1, 'x: y']}`.
pub fn flow(value: &Json) -> String {
    let mut writer = Writer::default();
    writer.node(value, &Place { indent: None, in_flow: true, key: false });
    writer.out
}

/// A line for each entry.
pub fn block(value: &Json) -> String {
    let mut writer = Writer::default();
    writer.node(value, &Place { indent: None, in_flow: false, key: false });
    writer.out
}

/// A line for each entry, and what holds nothing that holds something on one line: `a: [1, 2]`.
pub fn mixed(value: &Json) -> String {
    let mut writer = Writer { leaves_in_flow: true, ..Writer::default() };
    writer.node(value, &Place { indent: None, in_flow: false, key: false });
    writer.out
}

/// Where something is written.
#[derive(Copy, Clone)]
struct Place {
    /// How far the list or map that holds it stands in; none at the top.
    indent: Option<usize>,
    in_flow: bool,
    /// It is the key of a map.
    key: bool,
}

impl Place {
    /// How far lines behind the first stand in.
    fn inside(&self) -> usize {
        self.indent.map_or(STEP, |indent| indent + STEP)
    }
}

struct Writer {
    out: String,
    column: usize,
    /// Whether the last letter was a blank, or nothing is written yet.
    blank: bool,
    /// Whether only blanks and signs of lists are on the line.
    fresh: bool,
    leaves_in_flow: bool,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { out: String::new(), column: 0, blank: true, fresh: true, leaves_in_flow: false }
    }
}

/// What ends a line for every reader. Those that do so for YAML 1.1 alone are escaped.
fn is_break(letter: char) -> bool {
    letter == '\n'
}

impl Writer {
    fn letters(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
        self.blank = false;
        self.fresh = false;
    }

    /// A sign, apart from what stands before it where that is needed.
    fn sign(&mut self, sign: &str, apart: bool) {
        if apart && !self.blank {
            self.letters(" ");
        }
        self.letters(sign);
    }

    fn line_end(&mut self) {
        self.out.push('\n');
        (self.column, self.blank, self.fresh) = (0, true, true);
    }

    /// To the place where a line begins.
    fn begin_line(&mut self, indent: usize) {
        if !self.fresh || self.column > indent || (self.column == indent && !self.blank) {
            self.line_end();
        }
        if self.column < indent {
            let pad = indent - self.column;
            self.out.push_str(&" ".repeat(pad));
            (self.column, self.blank) = (indent, true);
        }
    }

    /// Whether a list or map that stands in a block goes on one line.
    fn is_short(&self, value: &Json) -> bool {
        let is_leaf = |item: &Json| !item.is_array() && !item.is_object();
        match value {
            Json::Array(items) => items.is_empty() || self.leaves_in_flow && items.iter().all(is_leaf),
            Json::Object(map) => map.is_empty() || self.leaves_in_flow && map.values().all(is_leaf),
            _ => true,
        }
    }

    fn node(&mut self, value: &Json, place: &Place) {
        match value {
            Json::Array(items) if place.in_flow || self.is_short(value) => self.flow_list(items, place),
            Json::Object(map) if place.in_flow || self.is_short(value) => self.flow_map(map, place),
            Json::Array(items) => self.list(items, place.indent.map_or(0, |indent| indent + STEP)),
            Json::Object(map) => self.map(map, place.indent.map_or(0, |indent| indent + STEP)),
            Json::String(text) => self.text(text, place),
            Json::Number(number) => self.sign(&super::emit::digits(&number.to_string()), true),
            other => self.sign(&other.to_string(), true),
        }
    }

    fn list(&mut self, items: &[Json], indent: usize) {
        for item in items {
            self.begin_line(indent);
            self.sign("-", true);
            self.fresh = true;
            self.node(item, &Place { indent: Some(indent), in_flow: false, key: false });
        }
    }

    fn map(&mut self, map: &Map<String, Json>, indent: usize) {
        let inside = Place { indent: Some(indent), in_flow: false, key: false };
        for (key, value) in map {
            self.begin_line(indent);
            self.text(key, &Place { key: true, ..inside });
            self.sign(":", false);
            match value {
                // A list stands at the column of its key.
                Json::Array(items) if !self.is_short(value) => self.list(items, indent),
                value => self.node(value, &inside),
            }
        }
    }

    fn flow_list(&mut self, items: &[Json], place: &Place) {
        self.sign("[", true);
        self.blank = true;
        let inside = Place { indent: Some(place.inside()), in_flow: true, key: false };
        for (at, item) in items.iter().enumerate() {
            self.next_in_flow(at, place);
            self.node(item, &inside);
        }
        self.sign("]", false);
    }

    fn flow_map(&mut self, map: &Map<String, Json>, place: &Place) {
        self.sign("{", true);
        self.blank = true;
        let inside = Place { indent: Some(place.inside()), in_flow: true, key: false };
        for (at, (key, value)) in map.iter().enumerate() {
            self.next_in_flow(at, place);
            self.text(key, &Place { key: true, ..inside });
            self.sign(":", false);
            self.node(value, &inside);
        }
        self.sign("}", false);
    }

    fn next_in_flow(&mut self, at: usize, place: &Place) {
        if at > 0 {
            self.sign(",", false);
        }
        if self.column > WIDTH {
            self.begin_line(place.inside());
        }
    }

    fn text(&mut self, text: &str, place: &Place) {
        let forms = Forms::of(text);
        // A text by itself stays on its line: in a reaction it is a value of its own, whose lines nobody folds.
        let on_its_line = place.key || place.indent.is_none();
        let many_lines = on_its_line && forms.many_lines;
        let plain = if place.in_flow { forms.plain_in_flow } else { forms.plain };
        let says_itself = !text.is_empty() && !OTHERWISE.as_ref().is_some_and(|other| other.is_match(text));
        let (split, indent) = (!on_its_line, place.inside());
        if plain && says_itself && !many_lines {
            self.plain(text, split, indent);
        } else if forms.single && !many_lines {
            self.single(text, split, indent);
        } else {
            self.double(text, split, indent);
        }
    }

    /// A run of letters of one sort: blanks, line breaks or others.
    fn runs(text: &str) -> Vec<&str> {
        let sort = |letter: char| (letter == ' ', is_break(letter));
        let mut runs = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|letter| sort(letter) != sort(first)).unwrap_or(rest.len());
            let (run, behind) = rest.split_at(end);
            runs.push(run);
            rest = behind;
        }
        runs
    }

    fn plain(&mut self, text: &str, split: bool, indent: usize) {
        if !self.blank {
            self.letters(" ");
        }
        for run in Writer::runs(text) {
            if run == " " && self.column > WIDTH && split {
                self.begin_line(indent);
                (self.blank, self.fresh) = (false, false);
            } else {
                self.letters(run);
            }
        }
    }

    fn single(&mut self, text: &str, split: bool, indent: usize) {
        self.sign("'", true);
        let runs = Writer::runs(text);
        for (at, run) in runs.iter().enumerate() {
            let between = at > 0 && at + 1 < runs.len();
            if *run == " " && self.column > WIDTH && split && between {
                self.begin_line(indent);
            } else if run.starts_with(is_break) {
                // One more than there are: a single one is a blank for whoever reads it.
                for _ in 0..=run.len() {
                    self.line_end();
                }
                self.begin_line(indent);
            } else {
                self.letters(&run.replace('\'', "''"));
            }
        }
        self.sign("'", false);
    }

    fn double(&mut self, text: &str, split: bool, indent: usize) {
        self.sign("\"", true);
        let mut letters = text.chars().enumerate().peekable();
        let last = text.chars().count().saturating_sub(1);
        let mut behind_blank = false;
        while let Some((at, letter)) = letters.next() {
            match letter {
                ' ' if split && !behind_blank && self.column > WIDTH && at > 0 && at < last => {
                    self.begin_line(indent);
                    // A blank that begins a line would be taken for its indentation.
                    if letters.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.letters("\\");
                    }
                }
                letter if needs_escape(letter) => self.letters(&escaped(letter)),
                letter => self.letters(letter.encode_utf8(&mut [0; 4])),
            }
            behind_blank = letter == ' ';
        }
        self.sign("\"", false);
    }
}

fn is_printable(letter: char) -> bool {
    matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && letter != '\u{feff}'
}

fn needs_escape(letter: char) -> bool {
    matches!(letter, '"' | '\\' | '\u{2028}' | '\u{2029}') || !is_printable(letter)
}

fn escaped(letter: char) -> String {
    let short = match letter {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        '"' | '\\' => letter,
        other => {
            return match u32::from(other) {
                code @ ..=0xff => format!("\\x{code:02X}"),
                code @ ..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// In which forms a text can be written.
struct Forms {
    plain: bool,
    plain_in_flow: bool,
    single: bool,
    many_lines: bool,
}

impl Forms {
    fn of(text: &str) -> Forms {
        let letters: Vec<char> = text.chars().collect();
        let is_gap = |at: usize| {
            letters.get(at).is_none_or(|letter| {
                *letter == ' ' || *letter == '\t' || *letter == '\r' || *letter == '\0' || is_break(*letter)
            })
        };
        let mark = text.starts_with("---") || text.starts_with("...");
        let (mut sign, mut sign_in_flow, mut special) = (mark, mark, false);
        let (mut blank_then_break, mut break_then_blank) = (false, false);
        for (at, letter) in letters.iter().copied().enumerate() {
            let gap_behind = is_gap(at + 1);
            let gap_before = at.checked_sub(1).is_none_or(is_gap);
            let (everywhere, in_flow) = match (at, letter) {
                (
                    0,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                    | '`',
                ) => (true, true),
                (0, '-') if gap_behind => (true, true),
                (0, '?') => (gap_behind, true),
                (_, ',' | '?' | '[' | ']' | '{' | '}') => (false, true),
                (_, ':') => (gap_behind, true),
                (_, '#') if gap_before => (true, true),
                _ => (false, false),
            };
            (sign, sign_in_flow) = (sign || everywhere, sign_in_flow || in_flow);
            let astral = u32::from(letter) >= 0x10000;
            let needs_double = !is_printable(letter) || matches!(letter, '\u{2028}' | '\u{2029}');
            special |= letter != '\n' && !astral && needs_double;
            let before = at.checked_sub(1).and_then(|before| letters.get(before)).copied();
            blank_then_break |= is_break(letter) && before == Some(' ');
            break_then_blank |= letter == ' ' && before.is_some_and(is_break);
        }
        let at_end = |end: Option<&char>| end.is_some_and(|letter| *letter == ' ' || is_break(*letter));
        let many_lines = letters.iter().any(|letter| is_break(*letter));
        let ends_blank = at_end(letters.first()) || at_end(letters.last());
        let only_double = blank_then_break || special;
        let plain = !ends_blank && !break_then_blank && !only_double && !many_lines;
        Forms {
            plain: plain && !sign,
            plain_in_flow: plain && !sign_in_flow,
            single: !break_then_blank && !only_double,
            many_lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use zester_model::source::FileId;
    use zester_rule::rule;

    fn read(text: &str) -> Json {
        match crate::parse_yaml(FileId(0), text) {
            Ok(node) => node.to_json(),
            Err(diagnostics) => panic!("{diagnostics:?}:\n{text}"),
        }
    }

    #[test]
    #[rule("S-10")]
    fn s10_data_is_written_as_by_pyyaml() {
        let value = json!({
            "a": [1, {"b": 2, "c": [true, []]}, [null, {}]],
            "lines": "one\ntwo\n",
            "say": "it is: so", "mode": "0644", "yes": "on", "date": "2026-11-15", "tab": "a\tb", "in": "a\n b",
            "long": "word ".repeat(30).trim_end(),
        });
        let wanted = "a:\n- 1\n- b: 2\n  c:\n  - true\n  - []\n- - null\n  - {}\nlines: 'one\n\n  two\n\n  '\nsay: 'it is: so'\n\
                      mode: '0644'\n'yes': 'on'\ndate: '2026-11-15'\ntab: \"a\\tb\"\nin: \"a\\n b\"\n";
        let folded = format!("long: {}\n  {}", "word ".repeat(16).trim_end(), "word ".repeat(14).trim_end());
        assert_eq!(block(&value), format!("{wanted}{folded}"));
        assert_eq!(read(&block(&value)), value);
        assert_eq!(
            flow(&json!({"a": [1, "x: y", "", "a,b"], "b": {}})),
            "{a: [1, 'x: y', '', 'a,b'], b: {}}"
        );
    }

    proptest! {
        #[test]
        #[rule("S-10")]
        fn s10_what_is_written_so_is_read_back(
            texts in prop::collection::vec("([ -~é]{0,90}|[a \u{85}\u{2028}\u{feff}\u{1f600}\t]{0,8}|[ \t\n:#'\"a-]{0,12}|(yes|no|~|=|[0-9eE.+:_-]{1,6}))", 0..5),
        ) {
            let keys = texts.iter().map(|text| (text.clone(), json!([text, {"k": text}])));
            let value = json!({ "all": texts.clone(), "map": Json::Object(keys.collect()) });
            prop_assert_eq!(&read(&block(&value)), &value, "{}", block(&value));
            prop_assert_eq!(&read(&flow(&value)), &value, "{}", flow(&value));
        }
    }
}
