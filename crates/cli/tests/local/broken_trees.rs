//! Broken state trees, and the exact words that point at what is wrong with them.
