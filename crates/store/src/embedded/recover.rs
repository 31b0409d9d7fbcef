//! Reads a folder: which one it is, the newest snapshot, the log behind it. Changes nothing; what is to be
//! mended is said in [`Recovered`].
//!
//! A torn end of the last segment is what a power cut leaves of a write that nobody was told of; it is
//! cut. Anything else that is not right stops the start.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::files::Files;
use super::frame::{Frames, HEADER};
use super::record::*;
use super::rescue::{GAPS, rescue};
use super::snapshot::Loader;
use super::{FORMAT, FORMAT_PREFIX, FORMAT_TMP, FORMAT_VERSION, LOCK, OpenError, Report, SegmentReport};
use super::{log_name, log_revision, snapshot_revision};
use crate::history::{Change, HistoryLimits};
use crate::objects::name_of;
use crate::state::State;
use crate::{Event, EventKind, Revision, Tenant};

/// What was read, and what has to be mended before it can be written on.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) state: State,
    /// The segment to write on.
    pub(super) log: String,
    /// How much of it is right; 0 if even its header is not.
    pub(super) log_len: u64,
    /// How long the snapshot is.
    pub(super) snapshot_len: u64,
    /// Files that are no longer needed.
    pub(super) obsolete: Vec<String>,
    pub(super) report: Report,
}

fn io(files: &dyn Files, action: &'static str, name: &str) -> impl FnOnce(io::Error) -> OpenError {
    let path = files.path(name);
    move |source| OpenError::Io { action, path, source }
}

/// The format of a folder of ours; `None` if it is empty, or the making of it was interrupted. What an older format
/// says the present one says too.
pub(super) async fn recognise(files: &dyn Files) -> Result<Option<u32>, OpenError> {
    let names = files.names().await.map_err(io(files, "list", ""))?;
    if !names.iter().any(|name| name == FORMAT) {
        for name in &names {
            let unfinished =
                *name == log_name(1) && files.len(name).await.map_err(io(files, "look at", name))? <= HEADER as u64;
            if !unfinished && name != LOCK && name != FORMAT_TMP {
                return Err(OpenError::Foreign { path: files.path(""), found: name.clone() });
            }
        }
        return Ok(None);
    }
    let text = files.read(FORMAT, 0, 1024).await.map_err(io(files, "read", FORMAT))?;
    let text = String::from_utf8_lossy(&text);
    let version = text.strip_prefix(FORMAT_PREFIX).and_then(|version| version.trim_end().parse::<u32>().ok());
    match version {
        Some(format @ 1..=FORMAT_VERSION) => Ok(Some(format)),
        Some(found) if found > FORMAT_VERSION => {
            Err(OpenError::Newer { path: files.path(""), found, supported: FORMAT_VERSION })
        }
        _ => Err(OpenError::Format { path: files.path(FORMAT) }),
    }
}

/// Where the log stops being right.
#[derive(Debug)]
pub(super) struct Damage {
    /// File, offset and reason.
    pub(super) what: String,
    /// The segments that are not right, from which byte on, in order.
    pub(super) lost: Vec<(String, u64)>,
    /// The snapshot that is not right, if it is that, and what was saved of it.
    pub(super) snapshot: Option<(String, Losses)>,
    error: OpenError,
}

/// What is lost of a damaged snapshot.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Objects; absent where nobody can say how many. Some of them may be there again since they were written
    /// later.
    pub objects: Option<u64>,
    /// Bytes that make no sense.
    pub bytes: u64,
    /// Where objects are missing, each place in words; not all, if there are many.
    pub gaps: Vec<String>,
}

/// Reads everything.
pub(super) async fn load(files: &dyn Files, limits: HistoryLimits) -> Result<Recovered, OpenError> {
    match load_some(files, limits, false).await? {
        (recovered, None) => Ok(recovered),
        (_, Some(damage)) => Err(damage.error),
    }
}

/// Reads what is right of the snapshot, and the log as far as it is right: what a repair keeps.
pub(super) async fn load_what_is_right(
    files: &dyn Files,
    limits: HistoryLimits,
) -> Result<(Recovered, Option<Damage>), OpenError> {
    load_some(files, limits, true).await
}

async fn load_some(
    files: &dyn Files,
    limits: HistoryLimits,
    rescues: bool,
) -> Result<(Recovered, Option<Damage>), OpenError> {
    let names = files.names().await.map_err(io(files, "list", ""))?;
    let mut snapshots: Vec<_> = names.iter().filter_map(|name| Some((snapshot_revision(name)?, name))).collect();
    let mut segments: Vec<_> = names.iter().filter_map(|name| Some((log_revision(name)?, name.clone()))).collect();
    snapshots.sort();
    segments.sort();
    let mut obsolete: Vec<String> = names.iter().filter(|name| name.ends_with(".tmp")).cloned().collect();
    let mut report = Report::default();

    let mut state = State::new(0, limits);
    let mut snapshot_len = 0;
    let mut damage = None;
    if let Some((revision, name)) = snapshots.pop() {
        snapshot_len = files.len(name).await.map_err(io(files, "look at", name))?;
        state = match load_snapshot(files, name, revision, limits).await {
            Err(error @ OpenError::Damaged { .. }) if rescues => {
                let saved = rescue(files, name, revision, limits).await.map_err(io(files, "read", name))?;
                let losses = Losses { objects: saved.lost_objects, bytes: saved.lost_bytes, gaps: saved.gaps };
                damage = Some(Damage { snapshot: Some((name.clone(), losses)), ..Damage::new(error, Vec::new()) });
                saved.state
            }
            loaded => loaded?,
        };
        report.snapshot = Some(((*name).clone(), snapshot_len));
    }
    let mut bare = damage.is_some().then(Bare::default);
    obsolete.extend(snapshots.into_iter().map(|(_, name)| name.clone()));
    let needed = segments.partition_point(|(first, _)| *first <= state.revision);
    obsolete.extend(segments.drain(..needed).map(|(_, name)| name));
    // A segment without a record may be left from a change of segments that was interrupted.
    while let [.., _, (_, last)] = segments.as_slice() {
        if files.len(last).await.map_err(io(files, "look at", last))? > HEADER as u64 {
            break;
        }
        obsolete.extend(segments.pop().map(|(_, name)| name));
    }
    let (mut log, mut log_len) = (log_name(state.revision + 1), 0);
    if segments.is_empty() {
        let (file, reason) = (files.path(&log), "the file is missing".to_owned());
        damage.get_or_insert_with(|| Damage::new(OpenError::Damaged { file, offset: 0, reason }, Vec::new()));
    }
    let last = segments.len().saturating_sub(1);
    for (index, (first, name)) in segments.iter().enumerate() {
        match load_segment(files, name, *first, &mut state, index == last, bare.as_mut()).await {
            Ok(segment) => {
                (log, log_len) = (name.clone(), segment.bytes);
                report.segments.push(segment);
            }
            Err(OpenError::Damaged { file, offset, reason }) => {
                if offset >= HEADER as u64 {
                    (log, log_len) = (name.clone(), offset);
                }
                let later = segments[index + 1..].iter().map(|(_, name)| (name.clone(), 0));
                let lost = [(name.clone(), offset)].into_iter().chain(later).collect();
                let found = Damage::new(OpenError::Damaged { file, offset, reason }, lost);
                damage = Some(match damage {
                    Some(before) => before.and(found),
                    None => found,
                });
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if let (Some((_, losses)), Some(bare)) = (damage.as_mut().and_then(|damage| damage.snapshot.as_mut()), bare) {
        losses.gaps.extend(bare.gaps());
    }
    report.describe(&state);
    Ok((Recovered { state, log, log_len, snapshot_len, obsolete, report }, damage))
}

impl Damage {
    fn new(error: OpenError, lost: Vec<(String, u64)>) -> Self {
        let what = match &error {
            OpenError::Damaged { file, offset, reason } => format!("{file} at byte {offset}: {reason}"),
            other => other.to_string(),
        };
        Damage { what, lost, snapshot: None, error }
    }

    /// That of a snapshot and that of the log behind it.
    fn and(self, later: Damage) -> Self {
        Damage { what: format!("{}; {}", self.what, later.what), lost: later.lost, ..self }
    }
}

async fn load_snapshot(
    files: &dyn Files,
    name: &str,
    revision: u64,
    limits: HistoryLimits,
) -> Result<State, OpenError> {
    let damaged =
        |offset, reason: &str| OpenError::Damaged { file: files.path(name), offset, reason: reason.to_owned() };
    let mut frames = Frames::new(files, name);
    let mut loader = Loader::new(limits);
    loop {
        let offset = frames.offset();
        let Some((header, payload)) = frames.next().await.map_err(io(files, "read", name))? else { break };
        let fits = header.first == revision && loader.load(Input(payload), header.records).is_some();
        if !fits {
            return Err(damaged(offset, "its records make no sense"));
        }
    }
    let len = files.len(name).await.map_err(io(files, "look at", name))?;
    if frames.offset() != len {
        return Err(damaged(frames.offset(), "the checksum is wrong"));
    }
    loader.finish().ok_or_else(|| damaged(len, "its end is missing"))
}

async fn load_segment(
    files: &dyn Files,
    name: &str,
    first: u64,
    state: &mut State,
    last: bool,
    mut bare: Option<&mut Bare>,
) -> Result<SegmentReport, OpenError> {
    let damaged = |offset, reason: String| OpenError::Damaged { file: files.path(name), offset, reason };
    let mut report = SegmentReport { name: name.to_owned(), ..SegmentReport::default() };
    if first != state.revision + 1 {
        let missing = format!("the log jumps from revision {} to {first}", state.revision);
        return Err(damaged(0, missing));
    }
    let mut frames = Frames::new(files, name);
    let mut headed = false;
    loop {
        report.bytes = frames.offset();
        let offset = frames.offset();
        let Some((header, payload)) = frames.next().await.map_err(io(files, "read", name))? else { break };
        if header.first != state.revision + 1 || (header.records > 0 && !headed) {
            let reason = format!("revision {} follows {}", header.first, state.revision);
            return Err(damaged(offset, reason));
        }
        // The seal.
        if header.records == 0 && headed {
            break;
        }
        headed = true;
        let replayed = replay(state, Input(payload), header.records, bare.as_deref_mut());
        replayed.ok_or_else(|| damaged(offset, "its records make no sense".to_owned()))?;
        report.frames += u64::from(header.records > 0);
        report.records += u64::from(header.records);
    }
    let behind = frames.offset();
    let tail = frames.tail(behind).await.map_err(io(files, "read", name))?;
    report.torn = if tail.used > 0 { behind - report.bytes + tail.used } else { 0 };
    let torn_header = !headed && tail.used > HEADER as u64;
    if report.torn > 0 && (!last || torn_header || tail.has_frame) {
        return Err(damaged(report.bytes, "the checksum is wrong, and it is not the end of the log".to_owned()));
    }
    Ok(report)
}

/// Tenants that were begun with a template that is lost, and which one. Their key spaces are there, with what was
/// written to them since.
#[derive(Debug, Default)]
struct Bare(BTreeMap<Tenant, String>);

impl Bare {
    /// What is missing, in words.
    fn gaps(&self) -> Vec<String> {
        let told = self.0.iter().take(GAPS);
        let mut gaps: Vec<_> = told
            .map(|(tenant, template)| format!("all that template {template} gave tenant {}", tenant.as_str()))
            .collect();
        if self.0.len() > GAPS {
            gaps.push(format!("all that lost templates gave {} more tenants", self.0.len() - GAPS));
        }
        gaps
    }

    /// Passes over a change of something that is missing; a key space is begun all the same.
    fn pass(&mut self, state: &mut State, change: Told) {
        state.pass();
        if let Told::Bare(tenant, template) = change {
            state.space(&tenant);
            self.0.insert(tenant, template);
        }
    }
}

/// Does again what the records of a frame say; `None` if they make no sense. Where parts of the state are missing,
/// what is done to them is passed over, and `bare` is there to note it.
fn replay(state: &mut State, mut input: Input<'_>, records: u32, mut bare: Option<&mut Bare>) -> Option<()> {
    let mut left = records;
    while left > 0 {
        let kind = input.byte()?;
        if kind == TEMPLATE {
            let seed = Arc::new(input.template()?);
            state.seeds.insert(seed.id.clone(), seed);
            continue;
        }
        if kind == JUMP {
            let target = input.number()?;
            state.jump(Some(target).filter(|target| *target > state.revision)?);
            left -= 1;
            continue;
        }
        match (change(state, kind, &mut input)?, bare.as_deref_mut()) {
            (Told::Change(change), bare) => {
                if let (Change::Dropped(tenant), Some(bare)) = (&change, bare) {
                    bare.0.remove(tenant);
                }
                state.apply(state.revision + 1, change);
            }
            (missing, Some(bare)) => bare.pass(state, missing),
            (_, None) => return None,
        }
        left -= 1;
    }
    input.is_empty().then_some(())
}

/// What a record says.
enum Told {
    Change(Change),
    /// What it is about is not there.
    Nothing,
    /// A tenant begins with a template that is not there.
    Bare(Tenant, String),
}

/// What a record says; `None` if it makes no sense.
fn change(state: &State, kind: u8, input: &mut Input<'_>) -> Option<Told> {
    let name = input.text()?;
    let tenant = state.tenant(name);
    match kind {
        PUT | DELETE => {
            let resource = state.resource(name, input.text()?);
            let raw = input.entry()?;
            let objects = state.spaces.get(&tenant).and_then(|space| space.collections.get(&resource));
            let name = (raw.namespace, raw.name);
            let (found, beside) = objects.map_or((None, None), |collection| collection.objects.look(name));
            let previous = found.cloned();
            let kind = match (kind, &previous) {
                (PUT, None) => EventKind::Added,
                (PUT, Some(_)) => EventKind::Modified,
                (_, Some(_)) => EventKind::Deleted,
                (_, None) => return Some(Told::Nothing),
            };
            let revision = state.revision + 1;
            let entry = raw.entry(resource, revision, previous.as_deref(), beside);
            debug_assert_eq!(name_of(&entry), name);
            let revision = Revision(revision);
            let event = Event { tenant, revision, kind, entry, previous };
            Some(Told::Change(Change::Object(Arc::new(event))))
        }
        INSTANTIATE => {
            let template = input.text()?;
            Some(match state.seeds.get(template) {
                Some(seed) => Told::Change(Change::Instantiated(tenant, seed.clone())),
                None => Told::Bare(tenant, template.to_owned()),
            })
        }
        DROP => Some(Told::Change(Change::Dropped(tenant))),
        _ => None,
    }
}
