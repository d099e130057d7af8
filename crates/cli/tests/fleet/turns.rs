//! Peels of one `up` share the machine, and so what their states write.

use crate::up::up;
use std::fmt::Write;
use zester_rule::rule;

const PEELS: usize = 5;
/// Enough for the runs of five peels to meet.
const FILES: usize = 12;

#[test]
#[rule("C-3")]
fn c3_peels_of_one_machine_take_turns_in_what_they_write() {
    let mut shared = String::from("dir:\n  file.directory: [{path: \"@T@/shared\"}, {mode: \"0755\"}]\n");
    for file in 0..FILES {
        write!(
            shared,
            "file-{file}:\n  file.managed: [{{path: \"@T@/shared/{file}\"}}, {{content: \"hi\\n\"}}, {{require: [{{file: dir}}]}}]\n"
        )
        .unwrap();
    }
    let up = up(PEELS, &[("shared", &shared)]);
    for round in 0..3 {
        let _first = std::fs::remove_dir_all(up.path("shared"));
        let done = up.json(&["*", "state.apply", "shared"], 0);
        let changed = |result: &serde_json::Value| {
            let states = result["return"]["states"].as_object().unwrap();
            states.values().filter(|state| state["changed"] == true).count()
        };
        let peels = done["peels"].as_object().unwrap();
        assert_eq!(peels.len(), PEELS, "{done}");
        assert_eq!(peels.values().map(changed).sum::<usize>(), FILES + 1, "round {round}: each once: {done}");
    }
}
