//! The macro that generates types and functions from the table of settings. To read or add settings, see `table.rs`.
//!
//! An optional part of an entry, such as `option: …`, is an optional group `$(…)?` of the macro. Code inside such a
//! group is generated only for the settings that have the part. For instance, `Flags` has a field for each setting with
//! an option, and no other.

/// Expands to its second part. The first part only ties the code to an optional part of an entry.
macro_rules! when {
    ($part:literal => $($code:tt)*) => { $($code)* };
}

/// Generates `Settings`, `Flags`, `FileSettings` and `KEYS` from the table.
macro_rules! settings {
    ($(
        $name:ident: $type:ty {
            key: $key:literal,
            $(form: $form:literal,)?
            $(default: $default:literal,)?
            $(unset: $unset:literal,)?
            $(empty: $empty:literal,)?
            $(per_agent: $per_agent:literal,)?
            help: $help:literal,
            $(option: $option:literal $(<$option_value:ident>)? at $place:literal $option_help:literal,)?
            $(
                file: $file:literal,
                $(example: $example:literal,)?
                $(comment: $comment:literal,)?
            )?
        }
    )*) => {
        /// All settings, as data.
        pub const KEYS: &[Key] = &[$(
            Key::new::<$type>(stringify!($name), $key, $help)
                $(.form($form))?
                $(.default($default))?
                $(.otherwise($unset))?
                $(.otherwise($empty))?
                $(.otherwise($per_agent))?
                $(.option($option, $place, $option_help)$(.option_value(stringify!($option_value)))?)?
                $(.change_file($file)$(.example($example))?$(.comment($comment))?)?,
        )*];

        /// All settings with their values and origins.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(
                $(#[doc = concat!("`", $key, "`, by default `", $default, "`.")] pub $name: Setting<Value<$type>>,)?
                $(#[doc = concat!("`", $key, "`; unset: `", $unset, "`.")] pub $name: Option<Setting<Value<$type>>>,)?
                $(#[doc = concat!("`", $key, "`, by default `", $empty, "`.")] pub $name: Setting<Value<$type>>,)?
            )*
        }

        /// The options given on the command line; there are no defaults here.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Flags {
            $($(#[doc = concat!("`", $option, "`.")] pub $name: Option<Value<$type>>,)?)*
            /// The values of all `--only` options.
            pub only: Vec<String>,
        }

        /// The settings in a change file; there are no defaults here.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct FileSettings {
            $($(#[doc = concat!("`", $file, "`.")] pub $name: Option<Value<$type>>,)?)*
        }

        impl Settings {
            /// Resolves every setting. `file` is the change file with the path to show in errors and listings.
            ///
            /// # Errors
            /// If git's configuration contains an invalid value.
            #[expect(unused_variables, reason = "a key per agent has no value here")]
            pub fn resolve(flags: &Flags, file: Option<(&ChangeFile, &str)>, git: &GitConfig) -> Result<Self> {
                let layers = Layers { path: file.map(|(_, path)| path), git };
                let in_file = file.map(|(file, _)| &file.settings);
                $(
                    let $name = layers.strongest::<$type>(
                        $key,
                        None$(.or(flags.$name.clone().map(|value| (value, $option))))?,
                        None$(.or(when!($file => in_file.and_then(|file| file.$name.clone()))))?,
                    )?;
                )*
                Ok(Settings {
                    $(
                        $($name: or_default::<$type>($name, $key, $default)?,)?
                        $($name: when!($unset => $name),)?
                        $($name: when!($empty => $name.unwrap_or_else(|| Setting::new(Vec::new(), Origin::Default))),)?
                    )*
                })
            }

            /// All settings as text, in the order of the table. Keys of agents are included only if they are set.
            #[must_use]
            pub fn listing(&self, git: &GitConfig) -> Vec<Listed> {
                let mut list = Vec::new();
                $(
                    $(list.push(Listed::of::<$type>($key, Some(&self.$name), $default));)?
                    $(list.push(Listed::of::<$type>($key, self.$name.as_ref(), $unset));)?
                    $(list.push(Listed::of::<$type>($key, Some(&self.$name), $empty));)?
                    $(when!($per_agent => list.extend(Listed::of_agents::<$type>($key, git)));)?
                )*
                list
            }
        }

        impl Flags {
            /// Reads the options. `values` returns the values of the option with the given id, or `None` if it was not
            /// given.
            ///
            /// # Errors
            /// A sentence that says what is expected.
            pub fn read(values: impl Fn(&str) -> Option<Vec<String>>) -> Result<Self, String> {
                Ok(Flags {
                    $($($name: when!($option => values(stringify!($name)).map(|texts| <$type>::from_option(&texts)).transpose()?),)?)*
                    only: Vec::new(),
                })
            }

            /// These flags, completed with those of `others` where a flag was not given.
            pub(super) fn or(self, others: Flags) -> Flags {
                Flags {
                    $($($name: when!($option => self.$name.or(others.$name)),)?)*
                    only: if self.only.is_empty() { others.only } else { self.only },
                }
            }
        }

        /// The journal stores every flag under the name of its option, with `null` for one that was not given.
        impl Serialize for Flags {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $($(map.serialize_entry($option.trim_start_matches("--"), &self.$name.as_ref().map(<$type>::to_json))?;)?)*
                map.serialize_entry("only", &self.only)?;
                map.end()
            }
        }

        /// A missing flag counts as not given: the version that wrote the journal did not know it.
        impl<'de> Deserialize<'de> for Flags {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut written = Written::deserialize(deserializer)?;
                Ok(Flags {
                    $($($name: written.take($option, <$type>::from_json)?,)?)*
                    only: written.take("--only", serde_json::from_value)?.unwrap_or_default(),
                })
            }
        }

        impl FileSettings {
            /// Reads the settings of a change file.
            ///
            /// # Errors
            /// A line of the form `file:line: what is wrong`.
            pub fn read(reader: &Reader, root: &DeTable) -> Result<Self, String> {
                Ok(FileSettings { $($($name: reader.setting::<$type>(root, $file)?,)?)* })
            }
        }
    };
}

pub(super) use {settings, when};
