//! Every dependency has a licence that ours may stand beside. A small wall that needs no tool and no network.

use serde_json::Value as Json;

const FINE: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "bzip2-1.0.6",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub fn check(metadata: &Json, problems: &mut Vec<String>) {
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or("?");
        let licence = package["license"].as_str().unwrap_or("none");
        if !fits(licence) {
            problems.push(format!("Cargo.lock: {name} has the licence `{licence}`"));
        }
    }
}

/// Whether every `AND` part has a fine `OR` choice.
fn fits(expression: &str) -> bool {
    let fine = |choice: &str| FINE.contains(&choice.trim_matches(['(', ')', ' ']));
    expression.replace('/', " OR ").split(" AND ").all(|part| part.split(" OR ").any(fine))
}
