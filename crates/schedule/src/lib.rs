//! What a peel does by itself and when (D-10), as a pure state machine.
//!
//! A schedule is read from what the user wrote ([`read`]), and a [`Schedule`] says what is due: time, chance and what was
//! remembered come in as values, runs to start and things to tell go out. What it must remember over a restart is one small
//! document, [`Memory`], which its owner writes before it starts what is due.

mod entry;
pub mod limits;
mod machine;
mod memory;
mod read;
mod when;

pub use entry::{Entry, Splay};
pub use machine::{Command, Dice, Event, NotRun, Row, Run, Schedule};
pub use memory::{Last, Memory, Remembered, Running};
pub use read::{Check, Reading, ScheduleError, read};
pub use when::{CronTimes, When, known_zone, shown};
