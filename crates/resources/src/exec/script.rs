//! Running a script that comes with the states.

use super::Exec;
use crate::context::{Applying, Checking};
use crate::scratch_path::unused_path;
use crate::shell_words;
use schemars::JsonSchema;
use serde::Deserialize;

use zester_host::{Exit, Fault, FaultKind, NewFile, Owner, Program};
use zester_secret::Revealed;

/// How the script becomes text.
#[derive(Copy, Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Template {
    Jinja,
}

impl Exec {
    /// Where the script comes from.
    pub(super) fn script_source(&self) -> String {
        let first = || shell_words::split(&self.command).ok().and_then(|split| split.into_iter().next());
        self.source.clone().or_else(first).unwrap_or_default()
    }

    /// The content of the script, rendered if asked for.
    pub(super) fn script(&self, cx: &Checking<'_>) -> Result<Revealed, Fault> {
        let source = self.script_source();
        let content = match source.starts_with('/') {
            true => cx.host.read(source.as_ref(), zester_model::limits::FILE_BYTES_MAX)?,
            // No other state puts a file among the states.
            false => {
                cx.files.read(&source).map_err(|fault| Fault { kind: FaultKind::Unsupported, ..fault })?
            }
        };
        if self.template.is_none() {
            return Ok(content.into());
        }
        let text = String::from_utf8(content)
            .map_err(|_| Fault::new(FaultKind::Unsupported, format!("the template {source} is not UTF-8")))?;
        cx.files.reveal(cx.files.render(&source, &text, &self.context)?.into_bytes())
    }

    /// The script is put beside other temp files for as long as it runs, readable only for whom it runs as. What keeps it
    /// from being removed is told beside how it ended; that it removed itself is no failure.
    pub(super) async fn run_script(
        &self,
        script: &[u8],
        cx: &Applying<'_>,
    ) -> Result<(Exit, Option<String>), Fault> {
        let owner = match &self.runas {
            None => cx.host.me(),
            Some(name) => {
                let user = cx.host.user(name)?;
                let unknown = || Fault::new(FaultKind::NotFound, format!("user `{name}` does not exist"));
                let user = user.ok_or_else(unknown)?;
                Owner { uid: user.uid, gid: user.gid }
            }
        };
        let path = unused_path(cx.host, "script")?;
        cx.host.put_file(&path, &NewFile { content: script, mode: 0o700, owner })?;
        let mut argv = Vec::new();
        if !script.starts_with(b"#!") {
            argv.push("/bin/sh".to_string());
        }
        argv.push(path.display().to_string());
        argv.extend(self.script_arguments());
        let launch = self.launch(Program::Argv(argv));
        let ended = self.run(&launch, cx.processes, cx).await;
        let removed = cx.host.remove_file(&path);
        let left = removed.err().filter(|fault| fault.kind != FaultKind::NotFound);
        Ok((ended?, left.map(|fault| fault.message)))
    }

    fn script_arguments(&self) -> Vec<String> {
        match &self.args {
            Some(args) => args.clone(),
            None => shell_words::split(&self.command).unwrap_or_default().into_iter().skip(1).collect(),
        }
    }
}
