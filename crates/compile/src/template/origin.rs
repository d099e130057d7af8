//! Marks in rendered text, and how they become positions.
//!
//! A mark is two characters of a private plane, an index into a table of places. They go into the text that the engine
//! renders and are taken out before anybody reads it; what stands between two marks comes from the first one's place.

use crate::position::Piece;
use std::sync::Mutex;
use zester_model::source::FileId;

/// Plane 16: plane 15 is in use (icon fonts live there).
const FIRST: u32 = 0x10_0000;
const SECOND: u32 = 0x10_8000;
/// Not the whole half plane: its last two code points are no characters.
const BASE: u32 = 0x7f00;

/// A place in a template: a stretch of plain text, or a tag.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// The template, by its index in the renderer's list.
    pub template: usize,
    pub offset: usize,
    pub len: usize,
    pub verbatim: bool,
}

/// The table of places of one renderer.
#[derive(Debug, Default)]
pub struct Spots {
    table: Mutex<Vec<Spot>>,
}

impl Spots {
    /// Adds a place and gives its index. A table that is full answers with its last place, which is wrong only in
    /// the column that a message shows.
    pub fn mark(&self, template: usize, offset: usize, len: usize, verbatim: bool) -> u32 {
        let mut table = match self.table.lock() {
            Ok(table) => table,
            Err(poisoned) => poisoned.into_inner(),
        };
        if table.len() < (BASE as usize * BASE as usize) {
            table.push(Spot { template, offset, len, verbatim });
        }
        table.len() as u32 - 1
    }

    pub fn get(&self, index: u32) -> Option<Spot> {
        let table = match self.table.lock() {
            Ok(table) => table,
            Err(poisoned) => poisoned.into_inner(),
        };
        table.get(index as usize).cloned()
    }
}

/// The two characters of a mark.
pub fn encode(index: u32) -> String {
    let first = char::from_u32(FIRST + index / BASE).unwrap_or('\u{100000}');
    let second = char::from_u32(SECOND + index % BASE).unwrap_or('\u{108000}');
    String::from_iter([first, second])
}

/// Whether a text holds characters that could be taken for marks.
pub fn is_foreign(text: &str) -> bool {
    // In UTF-8 exactly the characters of plane 16 begin with this byte.
    text.as_bytes().contains(&0xf4)
}

/// Takes the marks out of a rendered text and says where its pieces come from.
pub fn strip(marked: &str, spots: &Spots, files: &dyn Fn(usize) -> FileId) -> (String, Vec<Piece>) {
    let mut text = String::with_capacity(marked.len());
    let mut pieces: Vec<Piece> = Vec::new();
    let mut rest = marked;
    while let Some(at) = rest.bytes().position(|byte| byte == 0xf4) {
        text.push_str(&rest[..at]);
        let mut letters = rest[at..].chars();
        let pair = (letters.next(), letters.next());
        let index = match pair {
            (Some(first), Some(second)) if u32::from(second) >= SECOND && u32::from(first) < SECOND => {
                Some((u32::from(first) - FIRST) * BASE + (u32::from(second) - SECOND))
            }
            _ => None,
        };
        match index.and_then(|index| spots.get(index)) {
            Some(spot) => {
                rest = letters.as_str();
                push(&mut pieces, text.len(), spot, files);
            }
            None => {
                // Not a mark of ours: leave it as it is.
                let width = rest[at..].chars().next().map_or(1, char::len_utf8);
                text.push_str(&rest[at..at + width]);
                rest = &rest[at + width..];
            }
        }
    }
    text.push_str(rest);
    (text, pieces)
}

fn push(pieces: &mut Vec<Piece>, at: usize, spot: Spot, files: &dyn Fn(usize) -> FileId) {
    let piece =
        Piece { at, file: files(spot.template), offset: spot.offset, len: spot.len, verbatim: spot.verbatim };
    // A tag that yielded nothing leaves no piece.
    if pieces.last().is_some_and(|last| last.at == at) {
        pieces.pop();
    }
    pieces.push(piece);
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-10")]
    fn s10_marks_come_out_as_they_went_in() {
        let spots = Spots::default();
        let first = spots.mark(0, 7, 3, true);
        let second = spots.mark(1, 9, 4, false);
        let marked = format!("{}abc{}x\u{10fffd}", encode(first), encode(second));
        let (text, pieces) = strip(&marked, &spots, &|template| FileId(template as u32));
        assert_eq!(text, "abcx\u{10fffd}");
        assert_eq!(pieces.len(), 2);
        assert_eq!((pieces[0].at, pieces[0].offset, pieces[0].file), (0, 7, FileId(0)));
        assert_eq!((pieces[1].at, pieces[1].offset, pieces[1].file), (3, 9, FileId(1)));
    }

    #[test]
    fn every_index_is_two_characters_of_the_two_ranges() {
        for index in [0, 1, BASE - 1, BASE, BASE * BASE - 1] {
            let letters: Vec<u32> = encode(index).chars().map(u32::from).collect();
            assert!(matches!(letters[..], [a, b] if (FIRST..SECOND).contains(&a) && b >= SECOND), "{index}");
        }
    }
}
