//! Arbitrary text through the YAML composer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zester_model::source::FileId;

fuzz_target!(|text: &str| {
    if let Ok(node) = zester_compile::parse_yaml(FileId(0), text) {
        let _ = node.to_json();
    }
});
