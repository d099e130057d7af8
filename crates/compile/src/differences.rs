//! Every difference in meaning from Salt, in one table (S-56).
//!
//! docs/coming-from-salt.md is made of it, `zester migrate` reports by it, and advice of `lint` names its rows. A difference
//! without a row is a bug.

/// One difference.
#[derive(Copy, Clone, Debug)]
pub struct Difference {
    pub id: &'static str,
    /// What it is about, as a person would look for it.
    pub about: &'static str,
    pub salt: &'static str,
    pub zester: &'static str,
    /// What to write instead, or what to know.
    pub instead: &'static str,
    pub why: &'static str,
    pub effect: Effect,
}

/// What a difference does to a file that has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It works as it is: nothing to do.
    None,
    /// It runs, and means something else than in Salt, or was forgiven.
    Differs,
    /// It is refused: somebody has to write it anew.
    Refused,
}

const fn row(
    id: &'static str,
    about: &'static str,
    salt: &'static str,
    zester: &'static str,
    instead: &'static str,
    why: &'static str,
    effect: Effect,
) -> Difference {
    Difference { id, about, salt, zester, instead, why, effect }
}

use Effect::{Differs, None as Nothing, Refused};

/// The table.
#[rustfmt::skip]
pub const DIFFERENCES: &[Difference] = &[
    row("aggregate", "`aggregate`", "installs the packages of several states in one transaction",
        "accepts the word and does nothing", "list the packages of one state in `pkgs`",
        "states keep their own results and their own undo", Nothing),
    row("clean_filled", "`clean` of a directory that another state fills", "keeps what the states that it requires put there",
        "removes nothing and warns in `.sls` files; an error in `.zy`", "say what goes in the state that fills it: `clean: true`",
        "what a source holds is known to its own state", Differs),
    row("context_keys", "keys beside `context:`", "hands keys that are no parameters to the template",
        "does the same in `.sls` files, with a warning; an error in `.zy`", "indent the keys below `context:`",
        "a misspelt parameter must not vanish into a template", Differs),
    row("custom_grains", "`_grains`", "loads Python of the tree into the minion for facts", "reads custom facts from files and programs",
        "print the same as JSON from a program in `/etc/zester/facts.d`", "a fact may come from any language", Refused),
    row("custom_module", "`_modules`, `_states` and other Python", "loads Python of the tree into the minion",
        "does not run Python modules", "write a `cmd.script`",
        "there is no interpreter in the binary", Refused),
    row("duplicate_key", "a YAML key that stands twice", "refuses it in states and settings",
        "refuses it, with both places", "rename or join them", "the last would silently win", Nothing),
    row("environments", "environments of the top file", "have directories of their own, and the highstate takes all of them",
        "one tree; the highstate takes `base`, or the environment that `--env`, `saltenv=` or the machine's `env:` names",
        "name the environment, or put what all share into `base`", "a run is of one environment", Differs),
    row("exclude_unknown", "`exclude` of what is not there", "is ignored", "is an error with a suggestion",
        "remove the entry", "a misspelt name would exclude nothing", Refused),
    row("failhard", "`failhard`", "stops at once, in the middle of what runs", "lets its level finish and skips all later levels",
        "nothing", "states of one level run at the same time", Differs),
    row("fire_event", "`fire_event`", "sends an event when the state changed", "refuses the word",
        "write an `event.wait` that watches the state", "an event is a state of its own: it has a result, and a check shows it", Refused),
    row("follow_links", "a link at the path of a file", "is followed by root, whoever made it",
        "is followed only to what belongs to its maker, if another user made it", "nothing",
        "a user must not lead root elsewhere", Differs),
    row("force_mod_watch", "`force_mod_watch`", "refreshes a state that has changed already too", "refuses the word",
        "write what is to happen once more as a `cmd.wait` or a `module.wait` that watches the same states", "a state reacts once", Refused),
    row("gpg", "`#!yaml|gpg` in settings", "decrypts values with the master's key ring",
        "decrypts them on the machine that needs them, with the key ring of the user that runs", "give those machines the key, or seal values with `zester secret encrypt`",
        "no master holds what only others need", Differs),
    row("id_twice", "a requisite whose id several states have", "means all of them", "does the same in `.sls` files, with a warning; an error in `.zy`",
        "name the one that is meant in full, `file.managed:x`", "one of them was meant, or all: the file should say which", Differs),
    row("jinja_random", "the filter `random`", "chooses anew at every render", "chooses once for a file and a list",
        "nothing", "a dry run must show what an apply then does", Differs),
    row("listen", "`listen`", "reacts at the end of the run", "reacts in the place of the state, as `watch` does",
        "nothing", "what has changed is acted on before what depends on it runs", Differs),
    row("master_ext_pillar", "`ext_pillar` of a master", "asks other sources for pillar", "asks one program or directory: `settings_ext`",
        "let a program print what the sources say", "what is asked is seen by `zester settings`", Differs),
    row("master_gitfs", "`gitfs_remotes` of a master", "serves files from repositories", "publishes them from repositories: `states_git`",
        "name them in `states_git`", "a revision is published whole", Differs),
    row("master_nodegroups", "`nodegroups` of a master", "names groups of minions", "reads them in `top.sls` and on the command line",
        "name a group in the settings and aim at it: `I@group:web`", "one language for targets", Differs),
    row("master_reactor", "`reactor` of a master", "leads from event tags to files", "leads there in `reactor/top.zy`",
        "write the same list there; a key is `ORIGIN/TAG`", "rules are published and tried like states", Differs),
    row("master_roots", "`file_roots` and `pillar_roots` of a master", "are lists of directories for each environment", "one directory each: `states` and `settings`",
        "name it in the configuration, or with `--states` and `--settings`", "a tree is published whole", Differs),
    row("master_schedule", "`schedule` of a master", "starts jobs at times", "peels have the schedule", "write it into the schedule of the peels",
        "what is due is done while no master is there", Differs),
    row("missing_include", "an include that does not exist", "fails the whole run", "fails the compile and names both endings",
        "nothing", "nothing runs before everything is known", Nothing),
    row("mode_number", "`mode: 0644`", "is the number 420, or a text, by the reader of YAML", "`0644`, `\"0644\"` and `0o644` mean the same",
        "nothing", "nobody means 420", Nothing),
    row("module_run", "`module.run` and `module.wait` of execution functions", "calls a function of the minion when the state runs",
        "does the same with those of `zester doc`; what is a kind under another name is checked and undone as that kind", "use the kind that does it",
        "what a function did cannot be undone", Differs),
    row("names_ids", "`names`", "gives each state the id of the declaration", "makes the name the id of its state",
        "require the declared id, which means all of them, or one name", "each state has a name of its own in results", Differs),
    row("names_same", "the same name in two lists of `names`", "runs the state twice", "runs it once if the parameters are the same",
        "nothing", "doing it again is doing it once", Differs),
    row("needless_parameter", "a parameter that is so here anyway (`output_loglevel`, `keep_source`), or is off", "does what it says",
        "accepts it and does nothing", "remove it", "output is shown where it is asked for, and nothing is cached", Nothing),
    row("onchanges_failed", "`onchanges` with a failed target", "fails the state, as one whose requisite failed", "skips the state as `require_failed`",
        "use `onchanges_any` where one change is enough", "what did not run has not failed", Differs),
    row("onfail_skipped", "`onfail` of a state that was skipped", "takes a skipped state for a failed one", "takes only a state that ran and failed",
        "require the state that really fails", "a skipped state did nothing that needs repair", Differs),
    row("orchestrate", "orchestration (`salt.state`, `salt.function`)", "a master runs steps on many minions", "reads no such files as states",
        "dispatch jobs by target, or let a rule of the reactor start the next one", "a job outlives the master that began it", Refused),
    row("order", "`order`", "sorts all states of the run", "sorts the states of one level",
        "use requisites, or `#!ordered`", "independent states run at the same time", Differs),
    row("parallel", "`parallel`", "runs the state in a process of its own", "accepts the word and does nothing",
        "remove it", "states of a level run at the same time anyway", Nothing),
    row("parameter_twice", "a parameter that stands twice", "takes the last", "does the same in `.sls` files, with a warning; an error in `.zy`",
        "keep one of them", "one of the two was meant", Differs),
    row("prereq", "`prereq`", "runs the target in test mode first", "asks the target's requisites, guards and check",
        "nothing", "the gate sees what the target will see", Differs),
    row("prereq_circle", "`prereq` beside other requisites", "finds a circle in some that agree on one order, and refuses them", "runs them in that order",
        "nothing", "only a real circle has no order", Nothing),
    row("python_renderer", "`#!py`", "runs the file as Python in the minion", "runs it with python3 where the configuration says `renderers: {py: true}`, and refuses it elsewhere",
        "switch it on, or write the file as Jinja and YAML", "a tree of states is not meant to run code by being read", Refused),
    row("reactor", "reaction files", "render with the event and run at the master", "do the same from the reactor directory, with `local.*`, `dispatch.*`, `event.send`",
        "put the file below `reactor`, and see docs/reactor.md", "an event is answered once, whoever dies", Differs),
    row("reload_grains", "`reload_grains`", "reads facts again in the middle of a run", "accepts the word and does nothing",
        "split what needs new ones into a run of its own", "a run is compiled as a whole, with what was known when it began", Differs),
    row("reload_modules", "`reload_modules`", "loads the minion's modules again", "accepts the word and does nothing",
        "remove it", "everything is built in", Nothing),
    row("reload_pillar", "`reload_pillar`", "reads settings again in the middle of a run", "accepts the word and does nothing",
        "split what needs new ones into a run of its own", "a run is compiled as a whole, with what was known when it began", Differs),
    row("renderer", "other renderers (`mako`, `pyobjects`, `stateconf`, …)", "renders the file with them", "names the renderer and refuses the file",
        "write it as Jinja and YAML", "one language that can be checked without running code", Refused),
    row("requisite_map", "a map, or one name, in the place of a list of requisites", "refuses the file", "reads it as a list of one",
        "nothing", "it can mean nothing else", Nothing),
    row("retry_attempts", "`retry: {attempts: N}`", "tries N times in all", "tries N more times after the first",
        "write one less", "the word of S-18; `details.attempts` says how many ran", Differs),
    row("sequential", "states without requisites between them", "run in the order of the file", "run at the same time",
        "add requisites, or begin the file with `#!ordered`", "twenty sleeps of a second take a second", Differs),
    row("stray_parameter", "a parameter that no version of a kind has", "passes over it with a warning", "does the same in `.sls` files; an error in `.zy`",
        "remove it, or write the word that was meant", "a misspelt parameter must not vanish unsaid", Differs),
    row("test_guards", "`onlyif` and `unless` with `test=True`", "are asked on the machine as it is",
        "are `unknown` where something before them would change", "nothing", "the answer after the change may be another", Differs),
    row("unknown_function", "an execution function that is not built in", "calls whatever modules the minion has", "leaves it undefined: a template can ask `is defined`; calling it is an error",
        "use one of `zester doc`, or a `cmd.run`", "what a template may call is a list that can be read", Refused),
    row("unknown_kind", "a state module that is not built in", "loads whatever modules the minion has", "refuses the file and says what does the same",
        "use one of `zester doc`, or a `cmd.run` with `unless`", "every kind can be checked, undone and tested", Refused),
    row("unknown_parameter", "a parameter of Salt's kind that ours does not have", "does what it says", "refuses the file",
        "see `zester doc KIND`", "what was asked for must not be left undone unsaid", Refused),
    row("unknown_state", "a requisite of a state that is not there", "fails the state when the run comes to it",
        "refuses the file before anything runs", "include the file that has the state, or remove the requisite", "nothing runs before everything is known", Refused),
    row("unless_list", "a list under `unless`", "skips the state only if every command succeeds", "skips the state if one of the commands succeeds",
        "join the commands with `&&`", "each of them is a reason not to act", Differs),
    row("watch_creates", "`watch` and `creates`", "does not run a command whose `creates` exists", "runs it when a watched state changed",
        "use `onlyif` or `unless`, which hold even then", "a refresh is never lost", Differs),
    row("watch_test", "`watch` of `test.*`", "reports a change when a watched state changed", "waits, and reports nothing",
        "nothing", "what only tries something out has nothing to refresh", Differs),
    row("yaml_text", "`yaml` of one text of several lines, or a long one", "folds it over several lines", "writes it on one line, in double quotes where it needs them",
        "nothing: it reads the same", "what an event yields is never folded into the text around it", Nothing),
];

/// The row of an id.
pub fn find(id: &str) -> Option<&'static Difference> {
    DIFFERENCES.iter().find(|row| row.id == id)
}

/// Whether a row is about something that was forgiven in a file for Salt: told at a run too.
pub fn is_forgiven(id: &str) -> bool {
    ["context_keys", "id_twice", "parameter_twice", "stray_parameter"].contains(&id)
}

/// docs/coming-from-salt.md, from the words before and behind the table.
pub fn page(before: &str, behind: &str) -> String {
    let mut page = String::from(before);
    page.push_str("| what | in Salt | here | write instead | why |\n|---|---|---|---|---|\n");
    for Difference { about, salt, zester, instead, why, .. } in DIFFERENCES {
        let cells = [about, salt, zester, instead, why].map(|cell| cell.replace('|', "\\|"));
        page.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    page.push_str(behind);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-56")]
    fn s56_rows_are_sorted_and_stand_once() {
        let ids: Vec<&str> = DIFFERENCES.iter().map(|row| row.id).collect();
        assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
        for row in DIFFERENCES {
            assert!(
                ![row.about, row.salt, row.zester, row.instead, row.why].iter().any(|text| text.is_empty())
            );
            assert!(!row.salt.contains('|') || row.id == "gpg", "{}", row.id);
        }
    }
}
