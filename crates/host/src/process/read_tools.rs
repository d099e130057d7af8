//! Programs that a check may start because they only tell: one line a tool.
//!
//! What stands here before the words of a kind makes sure of it (`crontab -l`). Whoever adds one says so to whoever reads this
//! list: it is all that a dry run can start, besides the questions of the service and package managers.

/// A program, and the words that keep it from doing anything but answering.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReadTool {
    pub(super) program: &'static str,
    pub(super) words: &'static [&'static str],
}

const fn tool(program: &'static str, words: &'static [&'static str]) -> ReadTool {
    ReadTool { program, words }
}

pub const GETENT: ReadTool = tool("getent", &[]);
pub const CRONTAB_LIST: ReadTool = tool("crontab", &["-l"]);
pub const LOCALES: ReadTool = tool("locale", &["-a"]);
pub const IPTABLES_CHECK: ReadTool = tool("iptables", &["--wait", "--check"]);
pub const IP6TABLES_CHECK: ReadTool = tool("ip6tables", &["--wait", "--check"]);
pub const IPTABLES_SAVE: ReadTool = tool("iptables-save", &[]);
pub const IP6TABLES_SAVE: ReadTool = tool("ip6tables-save", &[]);
pub const GETFACL: ReadTool = tool("getfacl", &["--absolute-names", "--omit-header", "--no-effective", "--"]);
