//! From an offset in rendered text back to the line and column the user wrote.
//!
//! Rendered text is a row of [`Piece`]s: stretches copied letter by letter from a file, and stretches that a tag put
//! there. Questions come in rising order, so a cursor answers them without a search, and columns (counted in
//! characters) are never counted twice.

use zester_model::source::{FileId, Span};

/// A stretch of rendered text and where it comes from. It reaches to the next piece.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Byte offset in the rendered text.
    pub at: usize,
    pub file: FileId,
    /// Byte offset in the file.
    pub offset: usize,
    /// How many bytes of the file it stands for.
    pub len: usize,
    /// Copied from the file letter by letter; otherwise a tag of the file yielded it.
    pub verbatim: bool,
}

/// One source text with its line starts.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    ascii: bool,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Lines<'a> {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1));
        Lines { text, starts, ascii: text.is_ascii() }
    }

    /// Line and column (from 1) of a byte offset, and how many characters its line still holds from there.
    pub fn locate(&self, offset: usize) -> (u32, u32, u32) {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset).max(1) - 1;
        let start = self.starts.get(line).copied().unwrap_or(0);
        let end = self.line_end(line);
        let rest = self.count(offset, end);
        (line as u32 + 1, self.count(start, offset) + 1, rest)
    }

    fn line_end(&self, line: usize) -> usize {
        self.starts.get(line + 1).map_or(self.text.len(), |next| next - 1)
    }

    fn count(&self, from: usize, to: usize) -> u32 {
        if self.ascii {
            return to.saturating_sub(from) as u32;
        }
        self.text.get(from..to).map_or(0, |part| part.chars().count() as u32)
    }
}

/// A span of `len` characters at a byte offset of a text that was not rendered.
pub fn span_at(file: FileId, text: &str, range: std::ops::Range<usize>) -> Span {
    let (line, column, rest) = Lines::new(text).locate(range.start);
    let wanted = text.get(range).map_or(1, |part| part.lines().next().unwrap_or("").chars().count() as u32);
    Span::new(file, line, column, wanted.clamp(1, rest.max(1)))
}

/// Answers "where does this stand?" for one rendered text.
pub struct Positions<'a> {
    pieces: Vec<Piece>,
    /// By file id; only the files that the pieces name.
    files: Vec<(FileId, Lines<'a>)>,
    cursor: Cursor,
}

/// Where the last answer was, so that the next one starts there.
#[derive(Default)]
struct Cursor {
    piece: usize,
    file: usize,
    line: usize,
    byte: usize,
    column: u32,
}

impl<'a> Positions<'a> {
    /// The positions of a text that stands in the file as it is.
    pub fn plain(file: FileId, text: &'a str) -> Positions<'a> {
        let piece = Piece { at: 0, file, offset: 0, len: text.len(), verbatim: true };
        Positions::new(vec![piece], vec![(file, Lines::new(text))])
    }

    pub fn new(pieces: Vec<Piece>, files: Vec<(FileId, Lines<'a>)>) -> Positions<'a> {
        Positions { pieces, files, cursor: Cursor::default() }
    }

    /// The span of a rendered stretch that begins at `at` and has `len` characters (of its first line).
    pub fn span(&mut self, at: usize, len: u32) -> Span {
        let Some((piece_index, piece)) = self.piece(at).map(|(index, piece)| (index, piece.clone())) else {
            let file = self.pieces.first().map_or(FileId(0), |piece| piece.file);
            return Span::start_of(file);
        };
        self.cursor.piece = piece_index;
        let delta = if piece.verbatim { (at - piece.at).min(piece.len) } else { 0 };
        let offset = piece.offset + delta;
        let (file, verbatim, tag_len) = (piece.file, piece.verbatim, piece.len as u32);
        let (line, column, rest) = self.place(file, offset);
        let wanted = if verbatim { len } else { tag_len };
        Span::new(file, line, column, wanted.clamp(1, rest.max(1)))
    }

    /// Whether the text there was put there by a tag.
    pub fn is_from_a_tag(&self, at: usize) -> bool {
        self.piece(at).is_some_and(|(_, piece)| !piece.verbatim)
    }

    fn piece(&self, at: usize) -> Option<(usize, &Piece)> {
        let mut index = self.cursor.piece;
        if self.pieces.get(index).is_none_or(|piece| piece.at > at) {
            index = self.pieces.partition_point(|piece| piece.at <= at).checked_sub(1)?;
        }
        while self.pieces.get(index + 1).is_some_and(|next| next.at <= at) {
            index += 1;
        }
        self.pieces.get(index).map(|piece| (index, piece))
    }

    fn place(&mut self, file: FileId, offset: usize) -> (u32, u32, u32) {
        let cursor = &self.cursor;
        let same = self.files.get(cursor.file).is_some_and(|(id, _)| *id == file);
        let index = if same { Some(cursor.file) } else { self.files.iter().position(|(id, _)| *id == file) };
        let Some((index, lines)) =
            index.and_then(|index| self.files.get(index).map(|(_, lines)| (index, lines)))
        else {
            return (1, 1, 1);
        };
        let offset = offset.min(lines.text.len());
        let ahead = same && cursor.byte <= offset && cursor.column > 0;
        let mut line = if ahead { cursor.line } else { 0 };
        let near = lines.starts.get(line + 8).is_none_or(|start| *start > offset);
        if ahead && near {
            while lines.starts.get(line + 1).is_some_and(|start| *start <= offset) {
                line += 1;
            }
        } else {
            line = lines.starts.partition_point(|start| *start <= offset).max(1) - 1;
        }
        let start = lines.starts.get(line).copied().unwrap_or(0);
        let column = if ahead && line == cursor.line {
            cursor.column + lines.count(cursor.byte, offset)
        } else {
            lines.count(start, offset) + 1
        };
        // The length of the line is only a bound for the caret: bytes will do, and cost nothing on long lines.
        let rest = lines.line_end(line).saturating_sub(offset) as u32;
        self.cursor = Cursor { piece: self.cursor.piece, file: index, line, byte: offset, column };
        (line as u32 + 1, column, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    const FILE: FileId = FileId(3);

    #[test]
    fn columns_count_characters_and_may_be_asked_in_any_order() {
        let text = "a: ü b\nlang: x\n\nend: y";
        let mut positions = Positions::plain(FILE, text);
        let mut at = |part: &str| {
            let span = positions.span(text.find(part).unwrap(), part.chars().count() as u32);
            (span.line, span.column, span.len)
        };
        assert_eq!(at("a:"), (1, 1, 2));
        assert_eq!(at("b"), (1, 6, 1));
        assert_eq!(at("x"), (2, 7, 1));
        assert_eq!(at("ü"), (1, 4, 1));
        assert_eq!(at("end"), (4, 1, 3));
    }

    #[test]
    #[rule("C-7")]
    fn c7_text_from_a_tag_points_at_the_tag() {
        let source = "x: {{ name }}\ny: 2";
        let pieces = vec![
            Piece { at: 0, file: FILE, offset: 0, len: 3, verbatim: true },
            Piece { at: 3, file: FILE, offset: 3, len: 10, verbatim: false },
            Piece { at: 11, file: FILE, offset: 13, len: 5, verbatim: true },
        ];
        let rendered = "x: a\nb: c\ny\ny: 2";
        let mut positions = Positions::new(pieces, vec![(FILE, Lines::new(source))]);
        let span = positions.span(rendered.find("c").unwrap(), 1);
        assert_eq!((span.line, span.column, span.len), (1, 4, 10));
        let span = positions.span(rendered.find("y: 2").unwrap(), 1);
        assert_eq!((span.line, span.column), (2, 1));
    }
}
