//! The fleet.
