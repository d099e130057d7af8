//! Arbitrary text through the word splitter of the posix provider.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(words) = zester_resources::shell_words::split(text) {
        assert!(words.iter().map(String::len).sum::<usize>() <= text.len());
    }
});
