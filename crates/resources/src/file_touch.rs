//! `file.touch`: a file that exists, with the times that the state says.

use crate::claims::Claims;
use crate::context::{Applying, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::{FileDrift, FileResource};
use crate::params::{Absolute, Invalid, Mode, params};
use crate::path_change::PathChange;
use crate::path_state::PathState;
use crate::tree;
use serde::{Deserialize, Serialize};
use std::path::Path;
use zester_host::overlay::Overlay;
use zester_host::{Act, Fault, FileKind, HostRead, HostWrite, Meta, NewFile, Seen};

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const NANOS: i128 = 1_000_000_000;
/// Seconds that a record can hold in nanoseconds: until the year 2262.
const SECONDS_MAX: f64 = (i64::MAX / NANOS as i64) as f64;

/// A file that is there.
#[params(kind = "file.touch", primary = "path", manual = "file_touch.md")]
pub struct Touched {
    /// Where the file is.
    path: Absolute,
    /// The time of its last access, in seconds since 1970.
    atime: Option<f64>,
    /// The time of its last change, in seconds since 1970.
    mtime: Option<f64>,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
}

/// Access and modification time, in nanoseconds since 1970.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Times {
    atime_ns: i64,
    mtime_ns: i64,
}

/// What is to be made, or which times differ.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Drift {
    #[serde(flatten)]
    step: PathChange,
    /// The times before and after, where they are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<(Times, Times)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: CreatedDirs,
}

fn nanos(seconds: f64) -> i64 {
    (seconds * NANOS as f64) as i64
}

fn clamped(nanos: i128) -> i64 {
    nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

fn now(host: &dyn HostRead) -> i64 {
    clamped(host.now_ns())
}

impl Times {
    fn of(meta: &Meta) -> Times {
        Times { atime_ns: clamped(meta.atime_ns), mtime_ns: clamped(meta.mtime_ns) }
    }
}

impl Touched {
    fn inspect(&self, cx: &Checking<'_>, path: &Path) -> Result<Option<Drift>, Fault> {
        let Some(meta) = cx.host.stat(path)? else {
            return self.new_file(cx.host, path).map(Some);
        };
        let before = Times::of(&meta);
        // Touched again when a watched state changed; otherwise only the times that are given matter.
        let default = |present: i64| if cx.forced.is_some() { now(cx.host) } else { present };
        let after = Times {
            atime_ns: self.atime.map_or_else(|| default(before.atime_ns), nanos),
            mtime_ns: self.mtime.map_or_else(|| default(before.mtime_ns), nanos),
        };
        // Reading moves the access time of a file by itself, so without being asked for it is no difference.
        if before.mtime_ns == after.mtime_ns && (self.atime.is_none() || before.atime_ns == after.atime_ns) {
            return Ok(None);
        }
        cx.host.may(path, Act::Attributes)?;
        let path_state = PathState::at_attributes(cx.host, path)?;
        let step = PathChange::new(path.to_path_buf(), path_state.clone(), path_state);
        Ok(Some(Drift { step, times: Some((before, after)), made: Vec::new() }))
    }

    fn new_file(&self, host: &dyn HostRead, path: &Path) -> Result<Drift, Fault> {
        let path = path.to_path_buf();
        let owner = host.me();
        let made = created_dirs::missing_parents(host, &path, self.makedirs, DIRECTORY_MODE, owner)?;
        host.may(&path, Act::Put)?;
        let after = PathState::file(&[], FILE_MODE, owner);
        let times = (self.atime.is_some() || self.mtime.is_some()).then(|| {
            let given = |time: Option<f64>| time.map_or_else(|| now(host), nanos);
            let wanted = Times { atime_ns: given(self.atime), mtime_ns: given(self.mtime) };
            (wanted, wanted)
        });
        Ok(Drift { step: PathChange::new(path, PathState::Absent, after), times, made })
    }
}

impl Drift {
    /// Acts, and returns the directories that it made on the way.
    fn act(&self, host: &dyn HostWrite) -> Result<CreatedDirs, Fault> {
        let mut made = CreatedDirs::new();
        let PathChange { path, before, after, .. } = &self.step;
        created_dirs::make_then(host, &self.made, &mut made, || {
            if *before == PathState::Absent
                && let PathState::File { mode, .. } = after
            {
                let empty = NewFile { content: &[], mode: *mode, owner: host.me() };
                host.put_file_over(path, &empty, Seen::Nothing)?;
            }
            match &self.times {
                Some((_, after)) => host.set_times(path, after.atime_ns.into(), after.mtime_ns.into()),
                None => Ok(()),
            }
        })?;
        Ok(made)
    }
}

impl FileResource for Touched {
    type Drift = Drift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        let path = tree::behind_links(cx.host, &self.path)?;
        tree::real_path_now(cx.host, &path, |path| self.inspect(cx, path))
    }

    fn claims(&self) -> Claims {
        let owned = Claims::path(&self.path, "a file")
            .with("atime", self.atime.map(f64::to_bits))
            .with("mtime", self.mtime.map(f64::to_bits));
        let how: (Option<Mode>, Option<&String>, Option<&String>) = (None, None, None);
        Claims::of(owned).follows(true).makes_parents(self.makedirs, how)
    }

    fn validate(&self) -> Vec<Invalid> {
        let times = [("atime", self.atime), ("mtime", self.mtime)];
        let bad = times
            .into_iter()
            .filter(|(_, time)| time.is_some_and(|time| !(0.0..=SECONDS_MAX).contains(&time)));
        let invalid = |(parameter, _)| Invalid {
            parameter,
            message: "not a time from 1970 to 2262".into(),
            hint: None,
        };
        bad.map(invalid).collect()
    }
}

impl FileDrift for Drift {
    fn explain(&self, _done: bool) -> Explanation {
        let path = self.step.path.display();
        let diff = match self.step.before {
            PathState::Absent => format!("new empty file {path}\n"),
            _ => format!("times of {path} set\n"),
        };
        Explanation { diff, ..Explanation::default() }
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<Drift>, Fault> {
        let made = self.act(cx.host)?;
        Ok((made.len() != self.made.len()).then(|| Drift { made, ..self.clone() }))
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay).map(drop)
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let mut lines: Vec<String> = self.step.revert(cx)?.into_iter().collect();
        if self.step.before != PathState::Absent
            && let Some((before, after)) = &self.times
        {
            let path = &self.step.at_current_path(cx)?.path;
            let present = cx.host.stat(path)?.filter(|meta| !matches!(meta.kind, FileKind::Special(_)));
            // Changed since: its times are somebody else's now, and worth nothing to us.
            if present.is_some_and(|meta| Times::of(&meta).mtime_ns == after.mtime_ns) && before != after {
                cx.host.set_times(path, before.atime_ns.into(), before.mtime_ns.into())?;
                lines.push(format!("restored the times of {}", path.display()));
            }
        }
        lines.append(&mut created_dirs::unmake_all(&self.step.path, &self.made, cx)?);
        Ok(lines)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("file.touch", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "path": "/new" }), Promise::Converges, ""),
        case(json!({ "path": "/a/b/new", "makedirs": true }), Promise::Converges, ""),
        case(json!({ "path": "/new", "mtime": 1000, "atime": 2000 }), Promise::Converges, ""),
        case(json!({ "path": "/file", "mtime": 1000 }), Promise::Converges, "f /file 0604 text"),
        case(json!({ "path": "/file" }), Promise::Clean, "f /file 0604 text"),
        case(
            json!({ "path": "/link", "mtime": 1000 }),
            Promise::Converges,
            "f /file 0604 text\nl /link file",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::laws::bind_json;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("S-3")]
    fn s3_a_time_that_would_become_another_one_is_refused() {
        for parameter in ["atime", "mtime"] {
            let bound = |seconds: f64| {
                let mut params = json!({ "path": "/f" });
                params[parameter] = json!(seconds);
                bind_json("file.touch", &params).map(drop)
            };
            assert!(bound(0.0).is_ok() && bound(9_223_372_036.0).is_ok());
            for beyond in [-1.0, 9_223_372_037.0, 253_402_300_799.0] {
                let diagnostics = bound(beyond).unwrap_err();
                assert!(diagnostics[0].message.contains("not a time from 1970 to 2262"), "{diagnostics:?}");
            }
        }
    }
}
