//! What an operator asks of a fleet: dispatch, follow, list, cancel.
