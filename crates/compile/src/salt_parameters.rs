//! Parameters that Salt files carry and no kind here has: what to do instead (S-41: never silently ignored), and which of
//! them ask for nothing (S-49).

use crate::declare::Item;
use crate::salt_signatures;
use zester_model::diagnostic::{Diagnostic, Kind as DiagnosticKind};
use zester_model::node::{Node, ScalarType, Value};

/// What is so here anyway, or concerns something that is not here.
const NEEDLESS: [(&str, &str); 15] = [
    ("cmd", "hide_output"),
    ("cmd", "ignore_timeout"),
    ("cmd", "output_loglevel"),
    ("cmd", "python_shell"),
    ("cmd", "quiet"),
    ("cmd", "use_vt"),
    // A link to a directory is a directory for whoever uses it.
    ("file", "allow_symlink"),
    ("file", "keep_source"),
    ("file", "show_changes"),
    ("file", "tmp_dir"),
    ("file", "tmp_ext"),
    ("archive", "trim_output"),
    ("service", "unmask_runtime"),
    ("ssh_known_hosts", "timeout"),
    ("pkg", "skip_suggestions"),
];

/// Kind or module, parameter, advice.
const WORDS: [(&str, &str, &str); 25] = [
    ("cmd", "shell", "write the shell into the command: `bash -c '…'`, or use `cmd.script` with a `#!` line"),
    ("cmd", "python_shell", "remove it: `cmd.run` uses the shell, `exec.run` does not"),
    ("cmd", "stateful", "use `creates`, `onlyif` or `unless` to say when there is nothing to do"),
    ("cmd", "bg", "write `command &`: what runs in the background does not hold the run"),
    ("cmd", "hide_output", "remove it: output is shown only with `logoutput: true`"),
    ("cmd", "output_loglevel", "remove it: output is shown only with `logoutput: true`"),
    ("cmd", "quiet", "remove it: output is shown only with `logoutput: true`"),
    ("cmd", "use_vt", "remove it: commands have no terminal"),
    ("cmd", "ignore_timeout", "remove it: a command has a time limit only with `timeout`"),
    ("cmd", "prepend_path", "set `path` to the whole search path"),
    ("cmd", "group", "use `runas`: a command runs with all groups of its user"),
    ("cmd", "root", "write `chroot DIR …` into the command"),
    ("cmd", "success_stdout", "test the output in the command: `… | grep -q TEXT`"),
    ("cmd", "success_stderr", "test the output in the command: `… 2>&1 | grep -q TEXT`"),
    ("file.managed", "source_hash", "remove it: sources come from the states directory or this machine"),
    ("file.managed", "skip_verify", "remove it: sources come from the states directory or this machine"),
    ("file.managed", "keep_source", "remove it: sources are not cached"),
    ("file.managed", "contents_grains", "write `content: {{ grains['…'] | json }}`"),
    ("file.managed", "tmp_dir", "remove it: the file is written beside its place and moved there"),
    ("file.managed", "tmp_ext", "remove it: the file is written beside its place and moved there"),
    ("file.managed", "encoding", "remove it: content is UTF-8, written as it stands"),
    ("file.managed", "attrs", "run `chattr` in a `cmd.run` that has `onchanges` on this state"),
    ("file.managed", "selinux", "run `chcon` in a `cmd.run` that has `onchanges` on this state"),
    ("pkg", "fromrepo", "give the version that the repository has in `version`"),
    ("pkg", "skip_verify", "install the key of the repository in a `file.managed` before this state"),
];

/// Advice about a parameter of an `.sls` file that nothing is lost without: nobody knows it, it asks for nothing, or it is so
/// here anyway. `None`: it means something to Salt.
pub fn passed_over(kind: &str, item: &Item) -> Option<Diagnostic> {
    let module = kind.split('.').next().unwrap_or(kind);
    let needless = NEEDLESS.iter().any(|(of, name)| *of == module && *name == &*item.key);
    let (message, code) = match salt_signatures::knows(kind, &item.key)? {
        _ if needless || item.key.starts_with("win_") => {
            (format!("`{}` of {kind} does nothing here", item.key), "needless_parameter")
        }
        true if asks_nothing(&item.value) => {
            (format!("`{}` of {kind} asks for nothing", item.key), "needless_parameter")
        }
        true => return None,
        false => (format!("`{}` is no parameter of {kind}: it is passed over", item.key), "stray_parameter"),
    };
    Some(Diagnostic::new(DiagnosticKind::Lint, message).at(item.at).hint("remove it").code(code))
}

/// Off, or nothing.
fn asks_nothing(value: &Node) -> bool {
    match &value.value {
        Value::Scalar(scalar) => {
            matches!(scalar.scalar_type, ScalarType::Bool(false)) || value.is_null() || scalar.text.is_empty()
        }
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
    }
}

/// What to do instead of a parameter that Salt has.
pub fn advice(kind: &str, parameter: &str) -> Option<&'static str> {
    let module = kind.split('.').next().unwrap_or(kind);
    let fits = |of: &str| of == kind || of == module || of == "cmd" && module == "exec";
    WORDS.iter().find(|(of, name, _)| fits(of) && *name == parameter).map(|(_, _, advice)| *advice)
}
