//! What a rule of a packet filter is made of, as states say it: one list for `iptables` and `nft`.

/// A kind that takes the words of one rule.
macro_rules! rule_params {
    ($type:ident, $kind:literal, $manual:literal, $doc:literal, $family:ty, $families:literal $(; $($own:tt)+)?) => {
        #[doc = $doc]
        #[params(kind = $kind, primary = "name", manual = $manual)]
        pub struct $type {
            /// What the state is called; means nothing.
            #[param(default)]
            #[allow(dead_code, reason = "accepted because every state has a name")]
            name: String,
            /// The table.
            #[param(default = "filter".to_string())]
            table: String,
            /// The chain.
            chain: String,
            #[doc = $families]
            #[param(default)]
            family: $family,
            /// The number that it gets in its chain.
            position: Option<usize>,
            /// Where a packet goes that it matches: `ACCEPT`, `DROP`, a chain.
            jump: Option<String>,
            /// The protocol.
            #[param(alias = "protocol")]
            proto: Option<String>,
            /// Where a packet comes from. `!` before it: anywhere else.
            source: Option<String>,
            /// Where it goes to.
            destination: Option<String>,
            /// The interface that it came in by.
            #[param(alias = "in-interface", alias = "if")]
            in_interface: Option<String>,
            /// The interface that it goes out by.
            #[param(alias = "out-interface", alias = "of")]
            out_interface: Option<String>,
            /// Modules that match.
            #[param(list, default)]
            r#match: Vec<String>,
            /// The state of its connection: `NEW,ESTABLISHED`.
            connstate: Option<String>,
            /// The same, by the module `conntrack`.
            ctstate: Option<String>,
            /// The port that it goes to.
            #[param(alias = "destination-port")]
            dport: Option<String>,
            /// The port that it comes from.
            #[param(alias = "source-port")]
            sport: Option<String>,
            /// Ports that it may go to.
            #[param(list, default)]
            dports: Vec<String>,
            /// Ports that it may come from.
            #[param(list, default)]
            sports: Vec<String>,
            /// The sort of ICMP message.
            #[param(alias = "icmp-type")]
            icmp_type: Option<String>,
            /// What is written beside it.
            comment: Option<String>,
            /// How often it matches at most: `5/min`.
            limit: Option<String>,
            /// What a log line begins with.
            #[param(alias = "log-prefix")]
            log_prefix: Option<String>,
            /// How whoever is refused is told.
            #[param(alias = "reject-with")]
            reject_with: Option<String>,
            /// Where `DNAT` leads to.
            #[param(alias = "to-destination")]
            to_destination: Option<String>,
            /// What `SNAT` puts in place of the source.
            #[param(alias = "to-source")]
            to_source: Option<String>,
            /// The port that `REDIRECT` leads to.
            #[param(alias = "to-port", alias = "to-ports")]
            to_ports: Option<String>,
            /// Any other words, as the filter itself takes them.
            #[param(list, default)]
            arguments: Vec<String>,
            /// `true` saves all rules for the next start where Debian has them, a path saves them there.
            save: Option<Save>,
            $($($own)+)?
        }

        impl $type {
            fn parts(&self) -> $crate::netfilter::rule_params::RuleParts<'_> {
                $crate::netfilter::rule_params::RuleParts {
                    jump: self.jump.as_deref(),
                    proto: self.proto.as_deref(),
                    source: self.source.as_deref(),
                    destination: self.destination.as_deref(),
                    in_interface: self.in_interface.as_deref(),
                    out_interface: self.out_interface.as_deref(),
                    modules: &self.r#match,
                    connstate: self.connstate.as_deref(),
                    ctstate: self.ctstate.as_deref(),
                    dport: self.dport.as_deref(),
                    sport: self.sport.as_deref(),
                    dports: &self.dports,
                    sports: &self.sports,
                    icmp_type: self.icmp_type.as_deref(),
                    comment: self.comment.as_deref(),
                    limit: self.limit.as_deref(),
                    log_prefix: self.log_prefix.as_deref(),
                    reject_with: self.reject_with.as_deref(),
                    to_destination: self.to_destination.as_deref(),
                    to_source: self.to_source.as_deref(),
                    to_ports: self.to_ports.as_deref(),
                    arguments: &self.arguments,
                }
            }
        }
    };
}
pub(crate) use rule_params;

/// A rule as a state says it.
#[derive(Copy, Clone, Default)]
pub(crate) struct RuleParts<'a> {
    pub(crate) jump: Option<&'a str>,
    pub(crate) proto: Option<&'a str>,
    pub(crate) source: Option<&'a str>,
    pub(crate) destination: Option<&'a str>,
    pub(crate) in_interface: Option<&'a str>,
    pub(crate) out_interface: Option<&'a str>,
    pub(crate) modules: &'a [String],
    pub(crate) connstate: Option<&'a str>,
    pub(crate) ctstate: Option<&'a str>,
    pub(crate) dport: Option<&'a str>,
    pub(crate) sport: Option<&'a str>,
    pub(crate) dports: &'a [String],
    pub(crate) sports: &'a [String],
    pub(crate) icmp_type: Option<&'a str>,
    pub(crate) comment: Option<&'a str>,
    pub(crate) limit: Option<&'a str>,
    pub(crate) log_prefix: Option<&'a str>,
    pub(crate) reject_with: Option<&'a str>,
    pub(crate) to_destination: Option<&'a str>,
    pub(crate) to_source: Option<&'a str>,
    pub(crate) to_ports: Option<&'a str>,
    pub(crate) arguments: &'a [String],
}

/// What stands before a value that is not to match.
const NOT: [&str; 2] = ["!", "not "];

/// A value, and whether it is to match or anything else is.
pub(crate) fn denied(value: &str) -> (bool, &str) {
    let denied = NOT.iter().find_map(|not| value.strip_prefix(not));
    (denied.is_some(), denied.unwrap_or(value).trim())
}

/// A word that no table and no chain is called by.
pub(crate) fn odd_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    name.is_empty() || name.starts_with('-') || name.len() > 28 || !name.chars().all(plain)
}

/// What is wrong with what all rules say.
pub(crate) fn invalid(
    table: &str,
    chain: &str,
    position: Option<usize>,
    empty: bool,
) -> Vec<crate::params::Invalid> {
    use crate::params::Invalid;
    let mut invalid = Vec::new();
    for (parameter, word) in [("table", table), ("chain", chain)] {
        if odd_name(word) {
            invalid.push(Invalid::new(parameter, format!("`{word}` is no {parameter}")));
        }
    }
    if empty {
        invalid.push(Invalid::new("jump", "a rule says where a packet goes"));
    }
    if position == Some(0) {
        invalid.push(Invalid::new("position", "the first rule has the number 1"));
    }
    invalid
}
