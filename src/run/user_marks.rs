//! Records which stories the user marked as done in the source, before the run or later between two loops.

use anyhow::Result;

use super::{Activity, Event, OpenRun, SourcePlace};
use crate::error::Problem;
use crate::story::StoryId;

impl OpenRun {
    /// Records the marks in the source at the start of the run. Later marks are not trusted, because agents write to the source.
    pub(super) async fn record_source_marks(&mut self, source: Option<SourcePlace>) -> Result<()> {
        let Some(source) = source else { return Ok(()) };
        let material = source.material()?;
        let (kind, done) = (material.kind, material.done().map_err(Problem::fatal)?);
        if self.branch.repo.carries(source.in_work_tree().as_deref()).await.is_ok_and(|carried| !carried) {
            self.reporter().activity(&Activity::SourceNotCarried { path: source.path() });
        }
        self.record(Event::SourceRead { kind, done }).await
    }

    /// Also records marks that the user set since the last checkpoint. Marks that an agent set are part of that checkpoint, so they are not
    /// new.
    pub(super) async fn record_new_marks(&mut self) -> Result<()> {
        let Some(kind) = self.state.source_kind else {
            let source = self.site.changes.load(self.change())?.source;
            return self.record_source_marks(source).await;
        };
        let Some(source) = self.site.changes.load(self.change()).ok().and_then(|loaded| loaded.source_of(Some(kind))) else {
            return Ok(());
        };
        let Some(path) = source.in_work_tree() else { return Ok(()) };
        let Some(now) = source.material().ok().and_then(|material| material.done().ok()) else { return Ok(()) };
        let Some(text) = self.branch.repo.file_at(&self.base()?.checkpoint, &path).await? else { return Ok(()) };
        let before = source.material_with(text)?.done().unwrap_or_default();
        let done: Vec<StoryId> = now.into_iter().filter(|story| !before.contains(story)).collect();
        if done.is_empty() { Ok(()) } else { self.record(Event::SourceRead { kind, done }).await }
    }
}
