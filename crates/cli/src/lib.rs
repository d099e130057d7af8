//! The one binary.
