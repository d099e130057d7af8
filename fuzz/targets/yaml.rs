//! Arbitrary text through the YAML composer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zester_model::source::Sources;

fuzz_target!(|text: &str| {
    let mut sources = Sources::default();
    if let Ok(node) = zester_compile::parse_yaml(&mut sources, "fuzz.zy", text) {
        let _ = node.to_json();
    }
});
