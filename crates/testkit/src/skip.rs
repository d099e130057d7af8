//! Tests that cannot run where they are. A test that returned early would count as passed, so it says its name and why.

use std::fs::OpenOptions;
use std::io::Write;

/// The file that takes a line for each skipped test. `make test` sets it, and lists at its end what was skipped.
const RECORD: &str = "ZESTER_SKIPPED";
/// What [`skip!`](crate::skip!) puts below the test's own path.
const INSIDE: &str = "::inside";

/// Ends this test as skipped, by name and with the reason: `skip!("only root can become another user")`.
#[macro_export]
macro_rules! skip {
    ($($why:tt)+) => {{
        fn inside() {}
        $crate::record_skip(::std::any::type_name_of_val(&inside), &::std::format!($($why)+));
        return;
    }};
}

/// Writes the line of a skipped test; [`skip!`](crate::skip!) is the way to call it.
pub fn record_skip(place: &str, why: &str) {
    let test = name_of(place);
    eprintln!("skipped: {test}: {why}");
    let Some(record) = std::env::var_os(RECORD) else { return };
    let line = format!("{test}\t{}\n", why.replace(['\n', '\t'], " "));
    let file = OpenOptions::new().create(true).append(true).open(&record);
    // One write: many tests append at once.
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        panic!("a skipped test cannot be recorded in {}: {error}", record.display());
    }
}

/// The path of the test around the macro. The body of an asynchronous test is a closure inside it.
fn name_of(place: &str) -> String {
    place.strip_suffix(INSIDE).unwrap_or(place).replace("::{{closure}}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_by_its_path_asynchronous_or_not() {
        assert_eq!(name_of("host::tests::a::inside"), "host::tests::a");
        assert_eq!(name_of("host::tests::a::{{closure}}::inside"), "host::tests::a");
    }
}
