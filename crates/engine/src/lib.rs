//! The graph of states and the run as a pure state machine.
