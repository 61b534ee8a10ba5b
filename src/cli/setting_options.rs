//! Generates the options of settings from the table of settings.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::config::{Flags, KEYS, Key};

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(KEYS.iter().filter_map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        // For clap, a switch that is not given also has a value.
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let values = |id: &str| matches.get_many::<String>(id).filter(|_| is_given(id)).map(|values| values.cloned().collect());
        Flags::read(values).map_err(|why| Error::raw(ErrorKind::ValueValidation, why))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        Self::from_arg_matches(matches).map(|flags| *self = flags)
    }
}

/// The option of a setting. Its text is checked here, so that clap can report what is wrong; [`Flags::read`] parses it.
fn option(key: &'static Key) -> Option<Arg> {
    let long = key.option?.trim_start_matches("--");
    let checked = |text: &str| key.check_option(text).map(|()| text.to_owned());
    let arg = Arg::new(key.id).long(long).display_order(key.option_place).help(key.option_help()).value_parser(checked);
    Some(match (key.is_switch, key.is_list) {
        (true, _) => arg.action(ArgAction::SetTrue),
        _ if key.bare.is_some() => {
            let arg = arg.action(ArgAction::Set).value_name(key.option_value);
            arg.num_args(0..=1).require_equals(true).default_missing_value(key.bare)
        }
        (_, true) => arg.action(ArgAction::Append).value_name(key.option_value),
        _ => arg.action(ArgAction::Set).value_name(key.option_value).allow_hyphen_values(key.is_amount),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::YesNo;

    #[test]
    fn a_setting_that_is_yes_or_no_is_a_switch() {
        static KEY: Key = Key::new::<YesNo>("loud", "ralph.loud", "Whether.").default("false").option("--loud", 1, "Be loud");
        let command = || Command::new("x").args(option(&KEY)).no_binary_name(true);
        let values = |words: &[&str]| {
            let matches = command().try_get_matches_from(words).unwrap();
            let values: Vec<String> = matches.get_many::<String>("loud").unwrap().cloned().collect();
            (values.join(" "), matches.value_source("loud") == Some(ValueSource::CommandLine))
        };
        assert_eq!(values(&["--loud"]), ("true".to_owned(), true));
        assert_eq!(values(&[]), ("false".to_owned(), false));
        assert!(command().try_get_matches_from(["--loud=yes"]).is_err());
        assert!(command().render_help().to_string().contains("--loud  Be loud\n"));
    }
}
