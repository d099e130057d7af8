//! Which parameters Salt's own kinds take, for `.sls` files: what Salt does not know either it passes over, and so do we
//! (S-49); what it knows and we lack is refused.

/// Kind, and the words that mean something to it in Salt.
#[rustfmt::skip]
const SIGNATURES: &[(&str, &[&str])] = &[
    ("acl.absent", &["acl_name", "acl_type", "perms", "recurse"]),
    ("acl.present", &["acl_name", "acl_type", "force", "perms", "recurse"]),
    ("archive.extracted", &[
        "archive_format", "clean", "clean_parent", "enforce_ownership_on", "enforce_toplevel", "extract_perms",
        "force", "gnupghome", "group", "if_missing", "keyring", "list_options", "options", "overwrite", "password",
        "sig_backend", "signature", "signed_by_all", "signed_by_any", "skip_files_list_verify", "skip_verify",
        "source", "source_hash", "source_hash_name", "source_hash_sig", "source_hash_update", "trim_output",
        "use_cmd_unzip", "use_etag", "user"
    ]),
    ("cmd.run", &[
        "cwd", "env", "group", "hide_output", "ignore_timeout", "output_loglevel", "password", "prepend_path",
        "python_shell", "quiet", "root", "runas", "shell", "stateful", "success_retcodes", "success_stderr",
        "success_stdout", "timeout", "use_vt"
    ]),
    ("cmd.script", &[
        "context", "cwd", "defaults", "env", "group", "hide_output", "ignore_timeout", "output_loglevel",
        "password", "prepend_path", "python_shell", "quiet", "runas", "shell", "source", "stateful",
        "success_retcodes", "success_stderr", "success_stdout", "template", "timeout", "use_vt"
    ]),
    ("cmd.wait", &[
        "cwd", "env", "group", "hide_output", "ignore_timeout", "output_loglevel", "password", "prepend_path",
        "python_shell", "quiet", "root", "runas", "shell", "stateful", "success_retcodes", "success_stderr",
        "success_stdout", "timeout", "use_vt"
    ]),
    ("cmd.wait_script", &[
        "cwd", "env", "group", "hide_output", "ignore_timeout", "output_loglevel", "password", "prepend_path",
        "python_shell", "quiet", "runas", "shell", "source", "stateful", "success_retcodes", "success_stderr",
        "success_stdout", "template", "timeout", "use_vt"
    ]),
    ("cron.absent", &["identifier", "special", "user"]),
    ("cron.env_absent", &["user"]),
    ("cron.env_present", &["user", "value"]),
    ("cron.file", &[
        "backup", "context", "defaults", "replace", "source_hash", "source_hash_name", "template", "user"
    ]),
    ("cron.present", &[
        "comment", "commented", "daymonth", "dayweek", "hour", "identifier", "minute", "month", "special", "user"
    ]),
    ("debconf.set", &["data"]),
    ("event.send", &["data", "preload", "show_changed", "with_env", "with_grains", "with_pillar"]),
    ("event.wait", &["data", "sfun"]),
    ("file.absent", &[]),
    ("file.append", &[
        "context", "defaults", "ignore_whitespace", "makedirs", "show_changes", "source", "source_hash",
        "source_hashes", "sources", "template", "text"
    ]),
    ("file.blockreplace", &[
        "append_if_not_found", "append_newline", "backup", "content", "context", "defaults", "insert_after_match",
        "insert_before_match", "marker_end", "marker_start", "prepend_if_not_found", "show_changes", "source",
        "source_hash", "source_hashes", "sources", "template"
    ]),
    ("file.comment", &["backup", "char", "ignore_missing", "regex"]),
    ("file.copy", &["dir_mode", "force", "group", "makedirs", "mode", "preserve", "source", "subdir", "user"]),
    ("file.directory", &[
        "allow_symlink", "backupname", "children_only", "clean", "dir_mode", "exclude_pat", "file_mode",
        "follow_symlinks", "force", "group", "makedirs", "max_depth", "recurse", "user"
    ]),
    ("file.exists", &[]),
    ("file.keyvalue", &[
        "append_if_not_found", "count", "create_if_missing", "ignore_if_missing", "key", "key_ignore_case",
        "key_values", "prepend_if_not_found", "prune", "search_only", "separator", "show_changes", "uncomment",
        "value", "value_ignore_case"
    ]),
    ("file.line", &[
        "after", "backup", "before", "content", "create", "file_mode", "group", "indent", "location", "match",
        "mode", "quiet", "show_changes", "user"
    ]),
    ("file.managed", &[
        "allow_empty", "attrs", "backup", "check_cmd", "contents", "contents_delimiter", "contents_grains",
        "contents_newline", "contents_pillar", "context", "create", "defaults", "dir_mode", "encoding",
        "encoding_errors", "follow_symlinks", "gnupghome", "group", "ignore_comment_characters", "ignore_ordering",
        "ignore_whitespace", "keep_source", "keyring", "makedirs", "mode", "new_file_diff", "replace", "selinux",
        "show_changes", "sig_backend", "signature", "signed_by_all", "signed_by_any", "skip_verify", "source",
        "source_hash", "source_hash_name", "source_hash_sig", "template", "tmp_dir", "tmp_ext", "use_etag", "user",
        "verify_ssl"
    ]),
    ("file.missing", &[]),
    ("file.prepend", &[
        "context", "defaults", "header", "makedirs", "show_changes", "source", "source_hash", "source_hashes",
        "sources", "template", "text"
    ]),
    ("file.recurse", &[
        "backup", "clean", "context", "defaults", "dir_mode", "exclude_pat", "file_mode", "force_symlinks", "group",
        "include_empty", "include_pat", "keep_source", "keep_symlinks", "maxdepth", "merge", "replace", "source",
        "sym_mode", "template", "user"
    ]),
    ("file.rename", &["force", "makedirs", "source"]),
    ("file.replace", &[
        "append_if_not_found", "backslash_literal", "backup", "bufsize", "count", "encoding", "flags",
        "ignore_if_missing", "not_found_content", "pattern", "prepend_if_not_found", "repl", "show_changes"
    ]),
    ("file.serialize", &[
        "backup", "check_cmd", "create", "dataset", "dataset_pillar", "deserializer_opts", "encoding",
        "encoding_errors", "group", "makedirs", "merge_if_exists", "mode", "serializer", "serializer_opts",
        "show_changes", "tmp_dir", "tmp_ext", "user"
    ]),
    ("file.symlink", &[
        "atomic", "backupname", "disallow_copy_and_unlink", "follow_symlinks", "force", "group",
        "inherit_user_and_group", "makedirs", "mode", "target", "user"
    ]),
    ("file.touch", &["atime", "makedirs", "mtime"]),
    ("file.uncomment", &["backup", "char", "regex"]),
    ("git.cloned", &[
        "branch", "https_pass", "https_user", "identity", "output_encoding", "password", "target", "user"
    ]),
    ("git.config_set", &["multivar", "output_encoding", "password", "repo", "user", "value"]),
    ("git.config_unset", &["output_encoding", "password", "repo", "user", "value_regex"]),
    ("git.detached", &[
        "fetch_remote", "force_checkout", "force_clone", "hard_reset", "https_pass", "https_user", "identity",
        "output_encoding", "password", "remote", "rev", "submodules", "target", "user"
    ]),
    ("git.latest", &[
        "bare", "branch", "depth", "fetch_tags", "force_checkout", "force_clone", "force_fetch", "force_reset",
        "https_pass", "https_user", "identity", "mirror", "output_encoding", "password", "refspec_branch",
        "refspec_tag", "remote", "rev", "submodules", "sync_tags", "target", "update_head", "user"
    ]),
    ("group.absent", &["local"]),
    ("group.present", &["addusers", "delusers", "gid", "local", "members", "non_unique", "system"]),
    ("host.absent", &["ip"]),
    ("host.only", &["hostnames"]),
    ("host.present", &["clean", "comment", "ip"]),
    ("ini.options_absent", &["encoding", "sections", "separator"]),
    ("ini.options_present", &["encoding", "no_spaces", "sections", "separator", "strict"]),
    ("ini.sections_absent", &["encoding", "sections", "separator"]),
    ("ini.sections_present", &["encoding", "sections", "separator"]),
    ("iptables.append", &["family", "table"]),
    ("iptables.chain_absent", &["family", "table"]),
    ("iptables.chain_present", &["family", "table"]),
    ("iptables.delete", &["family", "table"]),
    ("iptables.flush", &["family", "table"]),
    ("iptables.insert", &["family", "table"]),
    ("iptables.set_policy", &["family", "table"]),
    ("kmod.absent", &["comment", "mods", "persist"]),
    ("kmod.present", &["mods", "persist"]),
    ("locale.present", &[]),
    ("locale.system", &[]),
    ("mount.fstab_absent", &["config", "fs_file", "mount_by"]),
    ("mount.fstab_present", &[
        "config", "fs_file", "fs_freq", "fs_mntops", "fs_mount", "fs_passno", "fs_vfstype", "match_on", "mount",
        "mount_by", "not_change"
    ]),
    ("mount.mounted", &[
        "bind_mount_copy_active_opts", "config", "device", "device_name_regex", "dump",
        "extra_mount_ignore_fs_keys", "extra_mount_invisible_keys", "extra_mount_invisible_options",
        "extra_mount_translate_options", "fstype", "hidden_opts", "match_on", "mkmnt", "mount", "opts", "pass_num",
        "persist", "user"
    ]),
    ("mount.swap", &["config", "persist"]),
    ("mount.unmounted", &["config", "device", "persist", "user"]),
    ("network.system", &[]),
    ("pkg.downloaded", &["fromrepo", "ignore_epoch", "pkgs", "version"]),
    ("pkg.held", &["pkgs", "replace", "version"]),
    ("pkg.installed", &[
        "allow_updates", "cache_valid_time", "disable_excludes", "disablerepo", "dist_upgrade", "downloadonly",
        "enablerepo", "force_conf_new", "force_yes", "fromrepo", "hold", "ignore_epoch", "install_recommends",
        "normalize", "only_upgrade", "pkg_verify", "pkgs", "refresh", "reinstall", "report_reboot_exit_codes",
        "resolve_capabilities", "saltenv", "setopt", "skip_suggestions", "skip_verify", "sources", "split_arch",
        "update_holds", "version"
    ]),
    ("pkg.latest", &[
        "cache_valid_time", "disable_excludes", "disablerepo", "dist_upgrade", "downloadonly", "enablerepo",
        "force_conf_new", "force_yes", "fromrepo", "hold", "install_recommends", "only_upgrade", "pkg_verify",
        "pkgs", "refresh", "report_reboot_exit_codes", "resolve_capabilities", "saltenv", "setopt", "skip_verify",
        "split_arch", "watch_flags"
    ]),
    ("pkg.purged", &["ignore_epoch", "normalize", "pkgs", "version"]),
    ("pkg.removed", &["ignore_epoch", "normalize", "pkgs", "version"]),
    ("pkg.unheld", &["all", "pkgs", "version"]),
    ("pkg.uptodate", &["pkgs", "refresh"]),
    ("pkgrepo.absent", &[]),
    ("pkgrepo.managed", &[
        "aptkey", "architectures", "baseurl", "clean_file", "comps", "consolidate", "copr", "disabled", "dist",
        "file", "gpgautoimport", "gpgcheck", "gpgkey", "humanname", "key_text", "key_url", "keyid", "keyserver",
        "mirrorlist", "ppa", "refresh", "signedby"
    ]),
    ("service.dead", &["enable", "init_delay", "no_block", "sig", "timeout"]),
    ("service.disabled", &[]),
    ("service.enabled", &[]),
    ("service.masked", &["runtime"]),
    ("service.running", &["enable", "full_restart", "init_delay", "reload", "sig", "unmask", "unmask_runtime"]),
    ("service.unmasked", &["runtime"]),
    ("ssh_auth.absent", &["comment", "config", "enc", "fingerprint_hash_type", "options", "source", "user"]),
    ("ssh_auth.manage", &[
        "comment", "config", "enc", "fingerprint_hash_type", "options", "source", "ssh_keys", "user"
    ]),
    ("ssh_auth.present", &["comment", "config", "enc", "fingerprint_hash_type", "options", "source", "user"]),
    ("ssh_known_hosts.absent", &["config", "user"]),
    ("ssh_known_hosts.present", &[
        "config", "enc", "fingerprint", "fingerprint_hash_type", "hash_known_hosts", "key", "port", "timeout",
        "user"
    ]),
    ("sysctl.present", &["config", "value"]),
    ("test.check_pillar", &["boolean", "dictionary", "integer", "listing", "present", "string", "verbose"]),
    ("test.configurable_test_state", &["allow_test_mode_failure", "changes", "comment", "result", "warnings"]),
    ("test.fail_with_changes", &[]),
    ("test.fail_without_changes", &[]),
    ("test.nop", &[]),
    ("test.show_notification", &["text"]),
    ("test.succeed_with_changes", &[]),
    ("test.succeed_without_changes", &[]),
    ("timezone.system", &["utc"]),
    ("user.absent", &["force", "local", "purge"]),
    ("user.present", &[
        "allow_gid_change", "allow_uid_change", "createhome", "date", "empty_password", "enforce_password",
        "expire", "fullname", "gid", "groups", "hash_password", "home", "homephone", "inactdays", "local",
        "loginclass", "maxdays", "mindays", "nologinit", "optional_groups", "other", "password", "password_lock",
        "persist_home", "remove_groups", "roomnumber", "shell", "system", "uid", "unique", "usergroup", "warndays",
        "workphone"
    ]),
];

/// Whether Salt's kind takes a parameter; `None` where the kind is none of Salt's.
pub fn knows(kind: &str, parameter: &str) -> Option<bool> {
    let (_, words) = SIGNATURES.iter().find(|(name, _)| *name == kind)?;
    Some(words.contains(&parameter))
}
