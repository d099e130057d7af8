//! Schedules as users write them, and what the machine makes of them.

mod clock;
mod machine;
mod properties;
mod read;
mod world;
