//! The scribe: writes an event to the journal, applies it to the state and reports it, in this order. No other module does that.

use anyhow::{Result, bail};

use super::event::StopKind;
use super::{Activity, Callbacks, Event, Journal, Quit, Record, Reporter, RunState};
use crate::process::Urgency;

/// Records and reports events.
pub struct Scribe<'a> {
    /// The journal.
    pub journal: &'a mut Journal,
    /// The fold of the events.
    pub state: &'a mut RunState,
    /// The reporter.
    pub reporter: &'a dyn Reporter,
    /// The user's commands that are called for events, if there are any.
    pub callbacks: Option<&'a Callbacks>,
}

impl Scribe<'_> {
    /// Records one event and syncs it to the disk.
    pub async fn record(&mut self, event: Event) -> Result<()> {
        let record = self.journal.append(event).await?;
        self.take_in(&record).await;
        self.note_repairs().await
    }

    /// Records an event that a step resulted in, without syncing it. The journal is synced before the next step with side effects. If the
    /// event is lost before that, the step is only repeated.
    pub async fn note(&mut self, event: Event) -> Result<()> {
        let record = self.journal.note(event)?;
        self.take_in(&record).await;
        self.note_repairs().await
    }

    /// Records notices about repairs of the journal itself.
    async fn note_repairs(&mut self) -> Result<()> {
        for notice in self.journal.take_notices() {
            let record = self.journal.note(Event::Noticed { notice })?;
            self.take_in(&record).await;
        }
        Ok(())
    }

    /// Records all events that a step resulted in.
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
