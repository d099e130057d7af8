//! From an event to what is done about it, as pure state machines.
//!
//! [`Gates`] decides which events meet rules at all. A [`RuleSet`] is the rules of one revision with an automaton that finds those
//! of an event. A [`Reaction`] is the way of one event through its rules: what to render, what to execute, what was decided, and
//! whether the event is done with or comes again. [`GuardState`] remembers fires for throttle and breaker.
//!
//! What is deliberately not here: a clock, a bus, a compiler, a task. Time is an argument; the compiler comes in as a
//! [`RuleCompiler`]; whoever drives a reaction carries out its commands and says how they ended. [`replay`] drives the very same
//! machines over events of the past.

pub mod actions;
mod breaker;
mod compiler;
mod config;
mod decision;
mod drops;
mod enroll_lint;
mod gates;
mod guard_state;
mod ids;
mod limiter;
pub mod limits;
mod matcher;
mod reaction;
pub mod replay;
mod request;
mod rule_set;
pub mod rules;
mod stuck;
mod throttle;
mod unread;

pub use actions::{Action, Block};
pub use breaker::Breakers;
pub use compiler::{EventContext, ReactionTemplate, RuleCompiler};
pub use config::Guards;
pub use decision::{Decided, Decision};
pub use drops::DropSamples;
pub use gates::{Delivered, DropReason, Dropped, Gates, Passed, Payload, Place, subject_of_key};
pub use guard_state::{Fire, GuardState, Hold};
pub use ids::{Cause, next_id};
pub use limiter::Limiter;
pub use matcher::Matcher;
pub use reaction::{Command, Executed, Input, Reaction, Settled, may_be_handed_back};
pub use request::{dispatch_request, sent_event};
pub use rule_set::RuleSet;
pub use rules::Rule;
pub use stuck::Stuck;
pub use throttle::Throttle;
pub use unread::{Lost, Unread};
