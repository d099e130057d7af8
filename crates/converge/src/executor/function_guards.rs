//! Guards that ask a function instead of the shell (S-47): `onlyif: [{fun: file.file_exists, args: [/etc/x]}]`.

use super::StateExecutor;
use super::launch_tracker::LaunchTracker;
use crate::functions::{self, Access, Arguments, CallContext};
use crate::settings::walk;
use serde_json::Value as Json;
use std::time::Duration;
use zester_engine::NodeId;
use zester_host::{Fault, FaultKind, HostRead, MissTracker, Processes};
use zester_model::program::FunctionGuard;

impl StateExecutor {
    /// Whether every function answers what its guard wants. `unsure` is set where nobody can know yet: what was looked for
    /// in vain may come with an earlier state of this dry run (S-44).
    pub(super) fn answers_fit(
        &self,
        node: NodeId,
        asks: &[FunctionGuard],
        unsure: &mut bool,
    ) -> Result<bool, Fault> {
        for ask in asks {
            // As the machine would be by then (S-30).
            let host = MissTracker::new(self.view());
            let processes = LaunchTracker::new(self.local_host.processes.as_ref());
            let answer = self.answer(ask, &host, &processes);
            let found = answer.as_ref().is_ok_and(truth);
            let lacking = host.missed() && !found || processes.lacked_program();
            if lacking && self.cause(node).is_some() || processes.lacked_place() && self.overlay.is_some() {
                *unsure = true;
            } else if truth(&answer?) != ask.wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn answer(
        &self,
        ask: &FunctionGuard,
        host: &dyn HostRead,
        processes: &dyn Processes,
    ) -> Result<Json, Fault> {
        let name = &ask.function;
        let fault = |why: String| Fault::new(FaultKind::Unsupported, format!("the guard `{name}`: {why}"));
        let function = functions::find(name).filter(|function| function.access <= Access::Command);
        let function = function.ok_or_else(|| fault("there is no such function".into()))?;
        let place = CallContext {
            host,
            processes,
            handle: &self.local_host.handle,
            facts: &self.plan.inputs.facts,
            settings: &self.plan.inputs.settings,
            origins: &self.plan.inputs.origins,
            cancel: &self.cancel,
            // Something was printed or not; how much does not matter.
            cut_output: true,
        };
        let arguments = Arguments { positional: ask.args.clone(), named: ask.named.clone() };
        // A function may run a command, which waits on the runtime we stand on.
        let answer = tokio::task::block_in_place(|| function.answer(&place, &arguments)).map_err(fault)?;
        Ok(match &ask.part {
            Some(part) => walk(&answer, part).cloned().unwrap_or(Json::Null),
            None => answer,
        })
    }

    /// What chance adds to the pause before another try.
    pub(crate) fn splay(&self, node: NodeId) -> Duration {
        use std::hash::{BuildHasher, Hasher};
        let most =
            self.plan.state(node.0 as usize).map_or(Duration::ZERO, |state| state.attributes.retry_splay);
        let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
        most.mul_f64(chance as f64 / u64::MAX as f64)
    }
}

/// What counts as yes, as Python would say.
fn truth(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(map) => !map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::Deadline;
    use crate::inputs::CompileRequest;
    use crate::local_host::LocalHost;
    use crate::plan::Plan;
    use crate::run::{Options, run};
    use crate::run_loop::NoObserver;
    use serde_json::json;
    use std::path::Path;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;
    use zester_model::outcome::{Mode, RunResult};
    use zester_rule::rule;

    /// A run of one file; `@T@` is a directory of the test.
    async fn ran(at: &Path, states: &str, mode: Mode) -> RunResult {
        std::fs::create_dir_all(at.join("states")).unwrap();
        let states = states.replace("@T@", &at.display().to_string());
        std::fs::write(at.join("states/c.zy"), states).unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let request = CompileRequest {
            references: vec!["c".into()],
            states: Some(at.join("states")),
            settings: Default::default(),
            facts: None,
            id: Some("here".into()),
            ordered: false,
            environment: None,
            only: None,
            access: Access::Command,
            renderers: Default::default(),
            data_dir: None,
        };
        let options = Options {
            mode,
            data_dir: at.join("data"),
            concurrency: 1,
            deadline: Deadline::none(),
            no_wait: true,
            force: false,
            run: None,
            turns: None,
        };
        let cancel = CancellationToken::new();
        let plan = tokio::task::block_in_place(|| Plan::make(&request, &local_host, &cancel)).unwrap();
        run(Some(Arc::new(plan)), &options, &local_host, Arc::new(NoObserver), &cancel).await.unwrap()
    }

    fn told(result: &RunResult, state: &str) -> (bool, bool, String) {
        let state = &result.states[state];
        (state.changed, state.unknown(), state.error.clone())
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("S-30")]
    async fn s30_a_function_guard_sees_what_an_earlier_state_would_do() {
        let temp = tempfile::tempdir().unwrap();
        let states = "
a:
  file.managed: [{path: @T@/dir/f}, {content: yes}, {makedirs: true}]
there:
  test.succeed_with_changes: [{onlyif: [{fun: file.file_exists, args: [@T@/dir/f]}]}, {require: [{file: a}]}]
read:
  test.succeed_with_changes: [{onlyif: [{fun: file.read, args: [@T@/dir/f]}]}, {require: [{file: a}]}]
inside:
  test.succeed_with_changes:
    - onlyif: [{fun: cmd.run_stdout, args: [pwd], cwd: @T@/dir}]
    - require: [{file: a}]
not there:
  test.succeed_with_changes: [{unless: [{fun: file.path_exists, args: [@T@/dir]}]}, {require: [{file: a}]}]
nowhere:
  test.succeed_with_changes: [{onlyif: [{fun: file.path_exists, args: [@T@/no]}]}, {require: [{file: a}]}]
";
        for mode in [Mode::Check, Mode::Apply] {
            let result = ran(temp.path(), states, mode).await;
            for (id, changed) in
                [("there", true), ("read", true), ("inside", true), ("not there", false), ("nowhere", false)]
            {
                let name = format!("test.succeed_with_changes:{id}");
                assert_eq!(told(&result, &name), (changed, false, String::new()), "{mode:?} {id}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("S-44")]
    async fn s44_what_a_function_guard_misses_behind_an_unpredictable_act_is_unknown() {
        let temp = tempfile::tempdir().unwrap();
        let states = "
install:
  cmd.run: [{command: echo x > @T@/f && touch @T@/done}, {creates: @T@/done}]
there:
  test.succeed_with_changes: [{onlyif: [{fun: file.file_exists, args: [@T@/f]}]}, {require: [{cmd: install}]}]
read:
  test.succeed_with_changes: [{onlyif: [{fun: file.read, args: [@T@/f]}]}, {require: [{cmd: install}]}]
not there:
  test.succeed_with_changes: [{unless: [{fun: file.file_exists, args: [@T@/f]}]}, {require: [{cmd: install}]}]
program:
  test.succeed_with_changes: [{unless: [{fun: cmd.retcode, args: [@T@/tool]}]}, {require: [{cmd: install}]}]
shell:
  test.succeed_with_changes: [{onlyif: [{fun: cmd.has_exec, args: [sh]}]}, {require: [{cmd: install}]}]
";
        let result = ran(temp.path(), states, Mode::Check).await;
        for (id, unknown) in
            [("there", true), ("read", true), ("not there", true), ("program", true), ("shell", false)]
        {
            let name = format!("test.succeed_with_changes:{id}");
            assert_eq!(told(&result, &name), (true, unknown, String::new()), "{id}");
        }
        for made in ["f", "done"] {
            std::fs::write(temp.path().join(made), "x").unwrap();
        }
        let result = ran(temp.path(), states, Mode::Check).await;
        assert_eq!(result.unknown, 0);
        assert!(!result.states["test.succeed_with_changes:not there"].changed);
    }

    #[test]
    #[rule("S-47")]
    fn s47_an_answer_counts_as_python_would_count_it() {
        for (value, expected) in [
            (json!(null), false),
            (json!(false), false),
            (json!(true), true),
            (json!(0), false),
            (json!(0.0), false),
            (json!(-1), true),
            (json!(""), false),
            (json!("no"), true),
            (json!([]), false),
            (json!({}), false),
            (json!([0]), true),
        ] {
            assert_eq!(truth(&value), expected, "{value}");
        }
    }
}
