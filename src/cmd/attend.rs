//! While the loop works: the screen is kept up to date, `q` asks to stop, and Ctrl-Z suspends the agents too.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::process::{StopHandle, Suspension, Urgency};
use crate::run::Live;

/// How often the screen is looked after.
const BEAT: Duration = Duration::from_millis(100);

/// Attends to the terminal for as long as it is polled.
///
/// # Errors
/// If signals cannot be listened to.
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
