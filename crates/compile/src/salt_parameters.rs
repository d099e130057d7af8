//! Parameters that Salt files carry and no kind here has, with what to do instead (S-41: never silently ignored).

/// Kind or module, parameter, advice.
const WORDS: [(&str, &str, &str); 27] = [
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
    ("file.directory", "clean", "name what is to go in `file.absent` states"),
    ("file.directory", "exclude_pat", "name what is to stay by leaving it out of `recurse`"),
    ("pkg", "fromrepo", "give the version that the repository has in `version`"),
    ("pkg", "skip_verify", "install the key of the repository in a `file.managed` before this state"),
];

/// What to do instead of a parameter that Salt has.
pub fn advice(kind: &str, parameter: &str) -> Option<&'static str> {
    let module = kind.split('.').next().unwrap_or(kind);
    let fits = |of: &str| of == kind || of == module || of == "cmd" && module == "exec";
    WORDS.iter().find(|(of, name, _)| fits(of) && *name == parameter).map(|(_, _, advice)| *advice)
}
