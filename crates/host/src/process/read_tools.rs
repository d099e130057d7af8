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
/// Tables, chains and rules, by their handles and without what they counted.
pub const NFT_LIST: ReadTool = tool("nft", &["--stateless", "--numeric-priority", "--handle", "list"]);
pub const FIREWALLD_ZONE: ReadTool = tool("firewall-cmd", &["--permanent", "--list-all"]);
pub const FIREWALLD_DEFAULT: ReadTool = tool("firewall-cmd", &["--get-default-zone"]);
pub const FIREWALLD_SERVICE: ReadTool = tool("firewall-cmd", &["--permanent", "--info-service"]);
pub const GETFACL: ReadTool = tool("getfacl", &["--absolute-names", "--omit-header", "--no-effective", "--"]);
pub const ALTERNATIVES: ReadTool = tool("update-alternatives", &["--query"]);
pub const GIT_CONFIG_GET: ReadTool = tool("git", &["config", "--null", "--get-all"]);
/// Whether there is a process with these words in its command line.
pub const PGREP: ReadTool = tool("pgrep", &["--full", "--"]);
/// What a transaction would do.
pub const APT_PLAN: ReadTool = tool("apt-get", &["--simulate"]);
/// What would have to be fetched.
pub const APT_FETCH: ReadTool = tool("apt-get", &["--print-uris"]);
pub const APT_VERSIONS: ReadTool = tool("apt-cache", &["madison"]);
/// It answers its own question with no.
pub const DNF_PLAN: ReadTool = tool("dnf", &["--assumeno"]);
pub const RPM_ALL: ReadTool = tool("rpm", &["--query", "--all"]);
pub const ZYPPER_INSTALL: ReadTool = tool("zypper", &zypper("install"));
pub const ZYPPER_REMOVE: ReadTool = tool("zypper", &zypper("remove"));
pub const ZYPPER_UPDATE: ReadTool = tool("zypper", &zypper("update"));
pub const ZYPPER_DIST_UPGRADE: ReadTool = tool("zypper", &zypper("dist-upgrade"));
pub const PACMAN_PLAN: ReadTool = tool("pacman", &["--print", "--print-format", "%n %v"]);
pub const PACMAN_ALL: ReadTool = tool("pacman", &["--query"]);
pub const APK_PLAN: ReadTool = tool("apk", &["--simulate"]);

const fn zypper(verb: &'static str) -> [&'static str; 5] {
    ["--non-interactive", "--no-refresh", "--xmlout", verb, "--dry-run"]
}
