//! Combines the options of `resume` with those that `start` stored in the journal; the options of `resume` take precedence.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::table::Flags;

impl Flags {
    /// These flags, completed with those of an earlier command.
    #[must_use]
    pub fn over(self, mut earlier: Flags) -> Flags {
        // The earlier model was meant for the earlier agent.
        if self.agent.is_some() {
            earlier.model = None;
        }
        self.or(earlier)
    }
}

/// Flags as stored in the journal, by option name.
#[derive(Deserialize)]
pub struct Written(BTreeMap<String, serde_json::Value>);

impl Written {
    /// The value of an option, if it was given.
    ///
    /// # Errors
    /// If the stored value has the wrong form.
    pub fn take<T, E: serde::de::Error>(
        &mut self,
        option: &str,
        read: impl Fn(serde_json::Value) -> serde_json::Result<T>,
    ) -> Result<Option<T>, E> {
        let json = self.0.remove(option.trim_start_matches("--")).filter(|json| !json.is_null());
        json.map(read).transpose().map_err(|error| E::custom(format!("{option}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::AgentChoice;

    #[test]
    fn flags_are_read_back_as_they_were_written() {
        for limit in [None, Some(None), Some(Some(Duration::from_secs(60)))] {
            let flags = Flags { attempt_timeout: limit, idle_timeout: limit, ..Flags::default() };
            let text = serde_json::to_string(&flags).unwrap();
            assert_eq!(serde_json::from_str::<Flags>(&text).unwrap(), flags, "{text}");
        }
    }

    #[test]
    fn flags_of_older_versions_are_read() {
        let text = r#"{"agent":{"named":"codex"},"model":null,"max-cost":2.5,"max-tokens":7,"max-retries":2,"verify":["make"],
            "attempt-timeout":{"secs":0,"nanos":0},"idle-timeout":{"secs":60,"nanos":0},"finish":"keep","only":["1"]}"#;
        let flags: Flags = serde_json::from_str(text).unwrap();
        let expected = Flags {
            agent: Some(AgentChoice::Named("codex".into())),
            max_cost: crate::cost::Cost::dollars(2.5),
            max_tokens: Some(7),
            max_retries: Some(2),
            verify: Some(vec!["make".into()]),
            attempt_timeout: Some(None),
            idle_timeout: Some(Some(Duration::from_secs(60))),
            finish: Some(crate::config::Finish::Keep),
            only: vec!["1".into()],
            ..Flags::default()
        };
        assert_eq!(flags, expected);
        let written = serde_json::to_value(&flags).unwrap();
        for (name, value) in serde_json::from_str::<serde_json::Map<_, _>>(text).unwrap() {
            assert_eq!(written[&name], value, "{name}");
        }
        assert_eq!(serde_json::from_str::<Flags>("{}").unwrap(), Flags::default());
        assert!(serde_json::from_str::<Flags>(r#"{"max-retries":"many"}"#).is_err());
    }

    #[test]
    fn a_model_goes_with_the_agent_that_it_was_named_for() {
        let earlier = Flags { model: Some("opus".into()), max_retries: Some(1), only: vec!["1".into()], ..Flags::default() };
        assert_eq!(Flags::default().over(earlier.clone()), earlier);
        let other = Flags { agent: Some(AgentChoice::Named("codex".into())), ..Flags::default() };
        let both = other.clone().over(earlier);
        assert_eq!((both.agent, both.model, both.max_retries), (other.agent, None, Some(1)));
    }
}
