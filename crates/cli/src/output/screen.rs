//! The terminal that a live view draws on. One that has gone is no error: the run goes on without anybody to see it.

use console::Term;
use indicatif::{ProgressDrawTarget, TermLike};
use std::io;

/// How often the view is drawn in a second.
const DRAWN_PER_SECOND: u8 = 10;

/// Stderr, where a view lives.
pub fn screen() -> ProgressDrawTarget {
    ProgressDrawTarget::term_like_with_hz(Box::new(LossyTerm(Term::buffered_stderr())), DRAWN_PER_SECOND)
}

/// A terminal that may go at any time. What draws on one takes an error for a bug and panics.
#[derive(Debug)]
struct LossyTerm(Term);

impl LossyTerm {
    fn ignore_lost(&self, drawn: io::Result<()>) -> io::Result<()> {
        drawn.or(Ok(()))
    }
}

impl TermLike for LossyTerm {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.ignore_lost(self.0.move_cursor_up(lines))
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.ignore_lost(self.0.move_cursor_down(lines))
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.ignore_lost(self.0.move_cursor_right(columns))
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.ignore_lost(self.0.move_cursor_left(columns))
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.ignore_lost(self.0.write_line(text))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.ignore_lost(self.0.write_str(text))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.ignore_lost(self.0.clear_line())
    }

    fn flush(&self) -> io::Result<()> {
        self.ignore_lost(self.0.flush())
    }
}
