//! The bounds of one render. Steps are the engine's fuel; here are time, the size of any one value and of all together, the text
//! that goes into captures, and the work hidden in values that hold the same thing many times.
//!
//! A bound that is passed is remembered, so that even code that cannot fail (formatting, iterating) stops the render
//! at the next step that can.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use zester_model::limits;

/// A list holds at most as many items as fit into the bound of a value at the size of one item.
pub const ITEMS_MAX: usize = limits::RENDER_VALUE_BYTES_MAX / ITEM_BYTES;
/// Items handed out by lists and maps in one render: ten passes over the largest list.
const VISITS_MAX: usize = 10 * ITEMS_MAX;
/// What an item of a list counts for.
pub const ITEM_BYTES: usize = 16;
/// All that one render may build: texts, and lists by their items, whether it keeps them or not.
const MADE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// The clock is looked at once in so many ticks.
const TICKS_A_LOOK: u32 = 256;

#[derive(Debug)]
pub struct Budget {
    deadline: Mutex<Option<Instant>>,
    ticks: AtomicU32,
    emitted: AtomicUsize,
    visits: AtomicUsize,
    made: AtomicUsize,
    passed: Mutex<Option<String>>,
}

impl Budget {
    pub fn new() -> Budget {
        Budget {
            deadline: Mutex::new(None),
            ticks: AtomicU32::new(0),
            emitted: AtomicUsize::new(0),
            visits: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            passed: Mutex::new(None),
        }
    }

    /// Begins a render.
    pub fn reset(&self) {
        set(&self.deadline, Some(Instant::now() + limits::RENDER_TIME_MAX));
        set(&self.passed, None);
        for counter in [&self.emitted, &self.visits, &self.made] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Time spent in a called function does not count.
    pub fn forgive(&self, spent: Duration) {
        if let Ok(mut deadline) = self.deadline.lock() {
            *deadline = deadline.map(|at| at + spent);
        }
    }

    /// Remembers the first bound that was passed and answers with the error.
    pub fn pass(&self, what: String) -> Error {
        if let Ok(mut passed) = self.passed.lock() {
            passed.get_or_insert_with(|| what.clone());
        }
        Error::new(ErrorKind::InvalidOperation, what)
    }

    /// Fails if any bound was passed.
    pub fn check(&self) -> Result<(), Error> {
        match self.passed.lock() {
            Ok(passed) => match &*passed {
                Some(what) => Err(Error::new(ErrorKind::InvalidOperation, what.clone())),
                None => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }

    /// A cheap step: now and then it looks at the clock.
    pub fn tick(&self) -> Result<(), Error> {
        if !self.ticks.fetch_add(1, Ordering::Relaxed).is_multiple_of(TICKS_A_LOOK) {
            return Ok(());
        }
        self.check()?;
        let late = self.deadline.lock().is_ok_and(|at| at.is_some_and(|at| Instant::now() > at));
        if late {
            let seconds = limits::RENDER_TIME_MAX.as_secs();
            return Err(self.pass(format!("rendering takes longer than {seconds} seconds")));
        }
        Ok(())
    }

    /// Refuses to build something of that many bytes.
    pub fn bytes(&self, bytes: usize) -> Result<(), Error> {
        self.tick()?;
        if bytes > limits::RENDER_VALUE_BYTES_MAX {
            return Err(self.pass(format!(
                "a value grows larger than {} MiB",
                limits::RENDER_VALUE_BYTES_MAX / 1024 / 1024
            )));
        }
        Ok(())
    }

    /// A value that the template made. None may outgrow its bound, and all of them together not theirs: a list may keep them.
    pub fn made(&self, bytes: usize) -> Result<(), Error> {
        let before = self.made.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > MADE_BYTES_MAX {
            let mib = MADE_BYTES_MAX / 1024 / 1024;
            return Err(self.pass(format!("the template builds values of more than {mib} MiB in all")));
        }
        Ok(())
    }

    /// Refuses to build a list of that many items.
    pub fn items(&self, items: usize) -> Result<(), Error> {
        self.tick()?;
        if items > ITEMS_MAX {
            return Err(self.pass(format!("a list grows larger than {ITEMS_MAX} items")));
        }
        Ok(())
    }

    /// Text that goes to the output or into a capture.
    pub fn emit(&self, bytes: usize) -> Result<(), Error> {
        let before = self.emitted.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > limits::RENDER_OUTPUT_BYTES_MAX {
            return Err(self.pass(format!(
                "the template yields more than {} MiB",
                limits::RENDER_OUTPUT_BYTES_MAX / 1024 / 1024
            )));
        }
        self.tick()
    }

    /// A list or map is about to hand out its items; `false` means that it must not.
    pub fn visit(&self, items: usize) -> bool {
        let before = self.visits.fetch_add(items + 1, Ordering::Relaxed);
        let fits = before.saturating_add(items) <= VISITS_MAX && self.tick().is_ok();
        if !fits {
            self.pass(format!("the template goes through more than {VISITS_MAX} items"));
        }
        fits
    }

    /// Lets a value through that is not too large.
    pub fn cap(&self, value: Value) -> Result<Value, Error> {
        self.tick()?;
        match value.kind() {
            ValueKind::String | ValueKind::Bytes => {
                let len = value.as_str().map(str::len).or_else(|| value.as_bytes().map(<[u8]>::len));
                self.bytes(len.unwrap_or(0))?;
                self.made(len.unwrap_or(0))?;
            }
            ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
                let items = value.len().unwrap_or(0);
                self.items(items)?;
                self.made(items.saturating_mul(ITEM_BYTES))?;
            }
            _ => {}
        }
        Ok(value)
    }
}

fn set<T>(slot: &Mutex<T>, value: T) {
    if let Ok(mut slot) = slot.lock() {
        *slot = value;
    }
}
