//! What a state can manage: one file a kind.
