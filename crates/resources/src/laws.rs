//! The laws that every kind obeys, whatever it manages.
