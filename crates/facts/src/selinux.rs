//! Whether SELinux is there, and whether it means it.

use crate::{Facts, read};
use serde_json::{Value, json};

pub fn collect(facts: &mut Facts) {
    facts.insert("selinux".into(), understand(&read::system_line("/sys/fs/selinux/enforce")));
}

/// The file is there only where SELinux is enabled.
fn understand(enforce: &str) -> Value {
    let enforced = match enforce {
        "1" => "Enforcing",
        "0" => "Permissive",
        _ => "Disabled",
    };
    json!({ "enabled": enforced != "Disabled", "enforced": enforced })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_selinux_is_enforcing_permissive_or_not_there() {
        assert_eq!(understand("1"), json!({"enabled": true, "enforced": "Enforcing"}));
        assert_eq!(understand("0"), json!({"enabled": true, "enforced": "Permissive"}));
        assert_eq!(understand(""), json!({"enabled": false, "enforced": "Disabled"}));
    }
}
