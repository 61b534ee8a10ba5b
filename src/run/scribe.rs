//! The scribe: writes an event down, takes it in, tells it. In this order, in one place.

use anyhow::{Result, bail};

use super::event::StopKind;
use super::{Activity, Callbacks, Event, Journal, Quit, Record, Reporter, RunState};
use crate::process::Urgency;

/// Writes down, takes in and tells.
pub struct Scribe<'a> {
    /// Where events are written.
    pub journal: &'a mut Journal,
    /// What they add up to.
    pub state: &'a mut RunState,
    /// Who tells them.
    pub reporter: &'a dyn Reporter,
    /// The user's own commands that are called with events, if there are any.
    pub callbacks: Option<&'a Callbacks>,
}

impl Scribe<'_> {
    /// Records one event.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn record(&mut self, event: Event) -> Result<()> {
        let record = self.journal.append(event).await?;
        self.take_in(&record).await;
        self.note_repairs().await
    }

    /// Records what has come of a step. It reaches the disk before the next step that does anything begins: until then
    /// losing it means no more than that the step is done again.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn note(&mut self, event: Event) -> Result<()> {
        let record = self.journal.note(event)?;
        self.take_in(&record).await;
        self.note_repairs().await
    }

    /// The journal itself may have been put right.
    async fn note_repairs(&mut self) -> Result<()> {
        for notice in self.journal.take_notices() {
            let record = self.journal.note(Event::Noticed { notice })?;
            self.take_in(&record).await;
        }
        Ok(())
    }

    /// Records all that has come of a step.
    pub(super) async fn note_all(&mut self, events: Vec<Event>) -> Result<()> {
        for event in events {
            self.note(event).await?;
        }
        Ok(())
    }

    async fn take_in(&mut self, record: &Record) {
        self.state.apply(&record.event);
        self.reporter.event(record, self.state);
        if let Some(callbacks) = self.callbacks
            && let Some(failure) = callbacks.tell(record).await
        {
            self.reporter.activity(&Activity::CallbackFailed { failure: &failure });
        }
    }

    pub(super) async fn stop(&mut self, urgency: Urgency) -> Result<()> {
        match stop_kind(urgency) {
            Some(how) => self.record(Event::StopRequested { how }).await,
            None => bail!(Quit::of_loop()),
        }
    }
}

fn stop_kind(urgency: Urgency) -> Option<StopKind> {
    match urgency {
        Urgency::None | Urgency::AfterAttempt => Some(StopKind::AfterAttempt),
        Urgency::Now => Some(StopKind::Now),
        Urgency::Interrupt => Some(StopKind::Interrupt),
        Urgency::Terminate => Some(StopKind::Terminate),
        Urgency::Quit => None,
    }
}
