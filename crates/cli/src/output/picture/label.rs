//! Names that fit into a box.

/// The widest label, in characters of ordinary width.
const LABEL_WIDTH_MAX: usize = 32;

/// A state's name as its box shows it.
#[derive(Debug, PartialEq)]
pub struct Label {
    /// `file.managed`, empty where a name has no kind.
    pub kind: String,
    /// The id, without its middle where it is long.
    pub id: String,
}

impl Label {
    pub fn of(name: &str) -> Label {
        let (kind, id) = name.split_once(':').unwrap_or(("", name));
        Label { kind: without_middle(kind), id: without_middle(id) }
    }

    /// Characters of ordinary width.
    pub fn kind_width(&self) -> usize {
        width(&self.kind)
    }

    /// Characters of ordinary width.
    pub fn id_width(&self) -> usize {
        width(&self.id)
    }
}

/// The end tells more than the beginning: of a path it is the file, of a numbered name the number.
fn without_middle(text: &str) -> String {
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if width(&text) <= LABEL_WIDTH_MAX {
        return text;
    }
    let room = LABEL_WIDTH_MAX - 1;
    let head = taken(text.chars(), room * 2 / 5);
    let tail = taken(text.chars().rev(), room - room * 2 / 5);
    head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect()
}

fn taken(letters: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut left = room;
    letters
        .map_while(|letter| {
            left = left.checked_sub(letter_width(letter))?;
            Some(letter)
        })
        .collect()
}

fn width(text: &str) -> usize {
    text.chars().map(letter_width).sum()
}

/// Rough, and rather too wide than too narrow: only the size of a box hangs on it.
fn letter_width(letter: char) -> usize {
    if letter >= '\u{2e80}' || ('\u{1100}'..'\u{1160}').contains(&letter) { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_id_are_told_apart_at_the_first_colon() {
        let label = Label::of("cmd.run:curl http://localhost:80");
        assert_eq!((label.kind.as_str(), label.id.as_str()), ("cmd.run", "curl http://localhost:80"));
        assert_eq!(Label::of("lonely"), Label { kind: String::new(), id: "lonely".into() });
    }

    #[test]
    fn a_long_id_loses_its_middle_only() {
        let label = Label::of("file.managed:/etc/nginx/sites-available/very/deep/below/example.com.conf");
        assert_eq!(label.id, "/etc/nginx/s…ow/example.com.conf");
        assert!(label.id_width() <= LABEL_WIDTH_MAX);
    }

    #[test]
    fn wide_letters_take_the_room_of_two() {
        let label = Label::of(&format!("file.managed:{}", "漢".repeat(40)));
        assert!(label.id_width() <= LABEL_WIDTH_MAX);
        assert!(label.id.contains('…'));
    }
}
