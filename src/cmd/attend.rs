//! While the loop works: updates the live view, stops on `q`, and suspends the agents on Ctrl-Z.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::process::{StopHandle, Suspension, Urgency};
use crate::run::Live;

/// How often the live view is updated.
const BEAT: Duration = Duration::from_millis(100);

/// Handles the terminal while it is polled.
///
/// # Errors
/// If signal handlers cannot be installed.
pub async fn attend(live: Option<Rc<dyn Live>>, stop: StopHandle) -> io::Result<Infallible> {
    let mut suspension = Suspension::listen()?;
    let mut beats = tokio::time::interval(BEAT);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = suspension.requested() => {
                if let Some(live) = &live {
                    live.step_aside();
                }
                suspension.suspend();
            }
            _ = beats.tick(), if live.is_some() => {
                if live.as_ref().is_some_and(|live| live.beat()) {
                    stop.raise(Urgency::AfterAttempt);
                }
            }
        }
    }
}
