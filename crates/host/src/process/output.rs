//! What a command writes: the head and the tail are kept, every line can be watched.

use super::{Captured, Launch, OutputSink};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use zester_secret::{Redactor, Revealed};

const READ_AT_ONCE: usize = 8 * 1024;
/// A line longer than this is handed on in pieces.
const LINE_MAX: usize = 16 * 1024;

/// Keeps the first and the last half of the bound, however much goes through.
struct HeadAndTail {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl HeadAndTail {
    fn new(kept: usize) -> HeadAndTail {
        HeadAndTail { half: kept / 2, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let to_head = bytes.len().min(self.half - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    fn finish(mut self) -> Captured {
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        let tail = self.tail.make_contiguous();
        if left_out == 0 {
            self.head.extend_from_slice(tail);
            let (text, lossy) = text_of(&self.head);
            return Captured { text, lossy, truncated: false };
        }
        // The cuts may fall inside a character; that alone does not make the output lossy.
        let (head, head_lossy) = text_of(before_cut(&self.head));
        let (tail, tail_lossy) = text_of(after_cut(tail));
        let text = format!("{head}[... {left_out} bytes left out ...]{tail}");
        Captured { text, lossy: head_lossy || tail_lossy, truncated: true }
    }
}

fn text_of(bytes: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes);
    let lossy = matches!(text, std::borrow::Cow::Owned(_));
    (text.into_owned(), lossy)
}

/// Without the beginning of a character that the cut took the rest of.
fn before_cut(bytes: &[u8]) -> &[u8] {
    let end = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    &bytes[..end]
}

/// Without the end of a character that the cut took the beginning of.
fn after_cut(bytes: &[u8]) -> &[u8] {
    let continued = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &bytes[continued..]
}

/// Cuts a stream into lines for those who watch.
struct Lines {
    live: OutputSink,
    begun: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.begun.len() > LINE_MAX {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let line = self.begun.strip_suffix(b"\n").unwrap_or(&self.begun);
        (self.live)(&String::from_utf8_lossy(line));
        self.begun.clear();
    }
}

struct Stream<R> {
    pipe: Option<R>,
    buffer: Vec<u8>,
    keeper: HeadAndTail,
    lines: Option<Lines>,
    /// Before anything is kept or shown.
    redactor: Option<Redactor>,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(pipe: Option<R>, launch: &Launch, live: Option<&OutputSink>) -> Stream<R> {
        let lines = live.map(|live| Lines { live: Arc::clone(live), begun: Vec::new() });
        let redactor = match launch.hides_secrets {
            true => launch.secrets.clone().map(Redactor::new),
            false => launch.secrets.clone().map(Redactor::putting_back),
        };
        Stream { pipe, buffer: Vec::new(), keeper: HeadAndTail::new(launch.output_kept), lines, redactor }
    }

    /// Takes what is there, or waits for it. Never ends once the pipe is at its end.
    async fn step(&mut self) {
        let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
        self.buffer.clear();
        self.buffer.reserve(READ_AT_ONCE);
        match pipe.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(_) => {
                let read = std::mem::take(&mut self.buffer);
                match &mut self.redactor {
                    Some(redactor) => {
                        let shown = redactor.take(&read);
                        self.pass_on(&shown);
                    }
                    None => self.pass_on(&read),
                }
                self.buffer = read;
            }
        }
    }

    fn pass_on(&mut self, bytes: &[u8]) {
        self.keeper.take(bytes);
        if let Some(lines) = &mut self.lines {
            lines.take(bytes);
        }
    }

    fn finish(mut self) -> Captured {
        if let Some(redactor) = self.redactor.take() {
            self.pass_on(&redactor.finish());
        }
        if let Some(mut lines) = self.lines
            && !lines.begun.is_empty()
        {
            lines.flush();
        }
        self.keeper.finish()
    }
}

/// Carries stdin in and stdout and stderr out, all at once.
pub(super) struct Pump {
    stdout: Stream<ChildStdout>,
    stderr: Stream<ChildStderr>,
    stdin: Option<(ChildStdin, Revealed, usize)>,
}

impl Pump {
    pub(super) fn new(
        child: &mut Child,
        launch: &Launch,
        input: Option<Revealed>,
        live: Option<&OutputSink>,
    ) -> Pump {
        let stdin = child.stdin.take().zip(input);
        let stdin = stdin.map(|(pipe, bytes)| (pipe, bytes, 0));
        Pump {
            stdout: Stream::new(child.stdout.take(), launch, live),
            stderr: Stream::new(child.stderr.take(), launch, live),
            stdin,
        }
    }

    pub(super) fn at_end(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Ends when both outputs are at their end. May be dropped and called again without losing anything.
    pub(super) async fn run(&mut self) {
        while !self.at_end() {
            tokio::select! {
                () = self.stdout.step() => {}
                () = self.stderr.step() => {}
                () = feed(&mut self.stdin) => {}
            }
        }
    }

    pub(super) fn finish(self) -> (Captured, Captured) {
        (self.stdout.finish(), self.stderr.finish())
    }
}

/// A child that does not read all of its input is no failure: many do not.
async fn feed(stdin: &mut Option<(ChildStdin, Revealed, usize)>) {
    let Some((pipe, bytes, written)) = stdin else { return std::future::pending().await };
    let bytes = bytes.bytes();
    match pipe.write(&bytes[*written..]).await {
        Ok(count) if count > 0 && *written + count < bytes.len() => *written += count,
        // Written whole or refused: closing the pipe is what tells the child.
        _ => *stdin = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use zester_model::limits::OUTPUT_BYTES_KEPT;
    use zester_rule::rule;

    fn kept(chunks: &[&[u8]]) -> Captured {
        let mut keeper = HeadAndTail::new(OUTPUT_BYTES_KEPT);
        chunks.iter().for_each(|chunk| keeper.take(chunk));
        keeper.finish()
    }

    #[test]
    #[rule("X-7")]
    fn x7_small_output_is_kept_as_it_is() {
        let captured = kept(&[b"one ", "zwölf\n".as_bytes()]);
        assert_eq!(captured, Captured { text: "one zwölf\n".into(), lossy: false, truncated: false });
    }

    #[test]
    #[rule("X-7")]
    fn x7_huge_output_keeps_head_and_tail_and_says_what_is_missing() {
        let mut keeper = HeadAndTail::new(OUTPUT_BYTES_KEPT);
        keeper.take(b"BEGIN");
        for _ in 0..1000 {
            keeper.take(&[b'a'; 4096]);
        }
        keeper.take(b"END\n");
        assert!(keeper.head.len() + keeper.tail.len() <= OUTPUT_BYTES_KEPT);
        let captured = keeper.finish();
        assert!(captured.truncated && !captured.lossy);
        assert!(captured.text.starts_with("BEGINaaa") && captured.text.ends_with("aaaEND\n"));
        let mark = format!("[... {} bytes left out ...]", 4_096_009 - OUTPUT_BYTES_KEPT);
        assert!(captured.text.contains(&mark));
    }

    #[test]
    #[rule("X-7")]
    fn x7_a_cut_inside_a_character_does_not_make_it_lossy() {
        for shift in 0..4 {
            let text = format!("{}{}", "x".repeat(shift), "€".repeat(100_000));
            let captured = kept(&[text.as_bytes()]);
            assert!(captured.truncated && !captured.lossy, "shift {shift}");
        }
    }

    #[test]
    #[rule("X-7")]
    fn x7_what_is_not_utf8_is_kept_lossily_and_marked() {
        let captured = kept(&[b"a\xff\xfeb"]);
        assert!(captured.lossy && captured.text.starts_with('a') && captured.text.ends_with('b'));
    }

    #[test]
    fn lines_come_whole_however_the_stream_is_cut() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let live: OutputSink = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_string()));
        let mut lines = Lines { live, begun: Vec::new() };
        for piece in ["on", "e\ntw", "o\n\nthree"] {
            lines.take(piece.as_bytes());
        }
        lines.flush();
        assert_eq!(*seen.lock().unwrap(), ["one", "two", "", "three"]);
    }
}
