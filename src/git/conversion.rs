//! Determines how git converts a file between the work tree and its objects: line endings, filters, encodings.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::repo::path_of;
use super::{Oid, PathChange, Repo};

/// Words in attribute files that make git convert content. Others, such as `binary`, only keep it from doing so.
const CONVERTING: [&[u8]; 6] = [b"text", b"eol", b"crlf", b"ident", b"filter", b"encoding"];
/// A pathspec for the files that have a filter, `ident` or an encoding, whatever their line endings.
const FILTERED: &str = ":(top,exclude,attr:!filter !ident !working-tree-encoding)";

/// The mode of a submodule in an index.
const GITLINK: u32 = 0o160_000;

/// Line endings that are uniform throughout a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnds {
    /// `\n`.
    Lf,
    /// `\r\n`.
    CrLf,
}

impl LineEnds {
    /// Converts text to these line endings.
    #[must_use]
    pub fn applied(self, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            match (self, byte) {
                (LineEnds::Lf, b'\r') if bytes.get(at + 1) == Some(&b'\n') => {}
                (LineEnds::CrLf, b'\n') if at == 0 || bytes[at - 1] != b'\r' => text.extend(b"\r\n"),
                _ => text.push(*byte),
            }
        }
        text
    }
}

/// The configuration of line endings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    /// The value of `core.autocrlf`; none if it is false.
    automatic: Option<LineEnds>,
    /// Whether `core.eol` is `crlf`.
    crlf_in_texts: bool,
    /// Whether there are attributes outside of the work tree, for the user or the repository.
    attributes: bool,
}

impl Conversion {
    /// The same as settings for the command line, so that later changes to the configuration have no effect.
    #[must_use]
    pub fn settings(self) -> [String; 2] {
        let automatic = match self.automatic {
            Some(LineEnds::CrLf) => "true",
            Some(LineEnds::Lf) => "input",
            None => "false",
        };
        [format!("core.autocrlf={automatic}"), format!("core.eol={}", if self.crlf_in_texts { "crlf" } else { "native" })]
    }

    /// Whether any file may be converted, apart from the attribute files in the work tree, which are not considered here.
    #[must_use]
    pub fn is_possible(self) -> bool {
        self.automatic.is_some() || self.attributes
    }

    /// The line endings that a checkout gives to a text with `\n` only. `attributes` are as `ls-files --eol` prints them.
    fn written(self, attributes: &str) -> LineEnds {
        let is = |word| attributes.split(' ').any(|attribute| attribute == word);
        let crlf = match self.automatic {
            Some(ends) => ends == LineEnds::CrLf,
            None => self.crlf_in_texts && attributes.starts_with("text"),
        };
        if is("eol=crlf") || crlf && !is("-text") && !is("eol=lf") { LineEnds::CrLf } else { LineEnds::Lf }
    }
}

/// A tracked file for which a checkout would write different bytes than it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedFile {
    /// The path from the top of the work tree.
    pub path: PathBuf,
    /// The object in the index.
    pub oid: Oid,
    /// The line endings that turn the output of a checkout into the file's bytes; none if only a copy can restore them.
    pub ends: Option<LineEnds>,
}

/// Whether the text of an attribute file makes git convert content.
#[must_use]
pub fn attributes_convert(text: &[u8]) -> bool {
    CONVERTING.iter().any(|word| memchr::memmem::find(text, word).is_some())
}

impl Repo {
    /// Reads the configuration of line endings, and whether there are attributes outside of the work tree.
    pub async fn conversion(&self) -> Result<Conversion> {
        let answer = self.git.call(["config", "-z", "--get-regexp", r"^core\.(autocrlf|eol|attributesfile)$"]).answer().await?;
        let mut conversion = Conversion::default();
        let mut files = vec![self.place.common_dir.join("info/attributes"), "/etc/gitattributes".into()];
        let home = self.git.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        files.extend(home.or_else(|| Some(Path::new(self.git.variable("HOME")?).join(".config"))).map(|dir| dir.join("git/attributes")));
        for entry in String::from_utf8_lossy(&answer.stdout).split('\0') {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            match (key, value.to_lowercase().as_str()) {
                ("core.autocrlf", "input") => conversion.automatic = Some(LineEnds::Lf),
                ("core.autocrlf", "true" | "yes" | "on" | "1") => conversion.automatic = Some(LineEnds::CrLf),
                ("core.autocrlf", _) => conversion.automatic = None,
                ("core.eol", value) => conversion.crlf_in_texts = value == "crlf",
                // git would have to expand `~` in the path. That the setting exists is reason enough to check every file.
                ("core.attributesfile", _) => conversion.attributes = true,
                _ => {}
            }
        }
        conversion.attributes |= files.iter().any(|file| std::fs::read(file).is_ok_and(|text| attributes_convert(&text)));
        Ok(conversion)
    }

    /// The paths of an index whose files differ in size or time from the index.
    pub async fn touched(&self, index: &Path) -> Result<Vec<PathBuf>> {
        let args = ["diff-files", "-z", "--name-only", "--ignore-submodules=all"];
        let output = self.git.call(args).index(index).working().output().await?;
        Ok(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect())
    }

    /// Every entry of an index, as an addition.
    pub async fn entries(&self, index: &Path) -> Result<Vec<PathChange>> {
        let output = self.git.call(["ls-files", "-z", "-s"]).index(index).working().output().await?;
        let entries = output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        entries.map(|entry| staged(entry).map(|file| PathChange::added(path_of(file.rest), file.mode, file.oid))).collect()
    }

    /// The paths among these that are gitlinks in an index.
    pub async fn gitlinks(&self, index: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let args = ["--literal-pathspecs", "ls-files", "-z", "-s", "--"].map(OsStr::new);
        let call = self.git.call(args.into_iter().chain(paths.iter().map(|path| path.as_os_str())));
        let output = call.index(index).working().output().await?;
        let entries = output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).map(staged).collect::<Result<Vec<_>>>()?;
        Ok(entries.into_iter().filter(|entry| entry.mode == GITLINK).map(|entry| path_of(entry.rest)).collect())
    }

    /// The files of an index for which a checkout would write different bytes, or might: filters are not run to find out.
    pub async fn unlike_checkout(&self, index: &Path, conversion: Conversion) -> Result<Vec<ConvertedFile>> {
        let output = self.git.call(["ls-files", "-z", "-s", "--eol"]).index(index).working().output().await?;
        let mut unlike = Vec::new();
        for entry in output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let file = staged(entry)?;
            let (details, path) = halves(file.rest)?;
            let details = String::from_utf8_lossy(details);
            let (inside, outside, attributes) = line_ends(&details).context("git ls-files answered in an unknown form")?;
            let ends = match (inside, outside, conversion.written(attributes)) {
                ("lf", "lf", LineEnds::Lf) | ("lf", "crlf", LineEnds::CrLf) => continue,
                ("lf", "lf", LineEnds::CrLf) => Some(LineEnds::Lf),
                ("lf", "crlf", LineEnds::Lf) => Some(LineEnds::CrLf),
                // A file with the attribute `text` is converted even if its content looks binary.
                ("-text" | "mixed" | "crlf", _, _) if is_set_to_text(attributes) => None,
                (inside, outside, _) if inside == outside => continue,
                _ => None,
            };
            unlike.push(ConvertedFile { path: path_of(path), oid: file.oid, ends });
        }
        let output = self.git.call(["ls-files", "-z", "-s", "--", ":/", FILTERED]).index(index).working().output().await?;
        for entry in output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let file = staged(entry)?;
            unlike.push(ConvertedFile { path: path_of(file.rest), oid: file.oid, ends: None });
        }
        Ok(unlike)
    }
}

fn is_set_to_text(attributes: &str) -> bool {
    attributes.split(' ').any(|attribute| attribute == "text")
}

/// One entry of an index as `ls-files -s` prints it, and the text after it.
struct Staged<'a> {
    mode: u32,
    oid: Oid,
    rest: &'a [u8],
}

fn staged(entry: &[u8]) -> Result<Staged<'_>> {
    let (head, rest) = halves(entry)?;
    let head = String::from_utf8_lossy(head);
    let mut words = head.split(' ');
    let unknown = "git ls-files answered in an unknown form";
    let mode = u32::from_str_radix(words.next().context(unknown)?, 8).context(unknown)?;
    Ok(Staged { mode, oid: words.next().context(unknown)?.parse()?, rest })
}

fn halves(entry: &[u8]) -> Result<(&[u8], &[u8])> {
    let tab = memchr::memchr(b'\t', entry).context("git ls-files answered in an unknown form")?;
    Ok((&entry[..tab], &entry[tab + 1..]))
}

/// Parses `i/lf w/crlf attr/text=auto eol=lf`; the columns are padded with blanks.
fn line_ends(details: &str) -> Option<(&str, &str, &str)> {
    let (inside, rest) = details.trim_end().strip_prefix("i/")?.split_once(' ')?;
    let (outside, attributes) = rest.trim_start().strip_prefix("w/")?.split_once(' ')?;
    Some((inside, outside, attributes.trim_start().strip_prefix("attr/")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_follows_attributes_then_configuration() {
        let none = Conversion::default();
        let auto = Conversion { automatic: Some(LineEnds::CrLf), ..none };
        let input = Conversion { automatic: Some(LineEnds::Lf), crlf_in_texts: true, attributes: false };
        let eol = Conversion { crlf_in_texts: true, ..none };
        for (conversion, attributes, crlf) in [
            (none, "", false),
            (none, "text eol=crlf", true),
            (none, "text=auto", false),
            (auto, "", true),
            (auto, "-text", false),
            (auto, "text eol=lf", false),
            (auto, "text=auto", true),
            (input, "", false),
            (input, "text", false),
            (input, "text eol=crlf", true),
            (eol, "", false),
            (eol, "text=auto", true),
            (eol, "text=auto eol=lf", false),
        ] {
            assert_eq!(conversion.written(attributes) == LineEnds::CrLf, crlf, "{conversion:?} {attributes}");
        }
    }

    #[test]
    fn line_ends_are_applied_once() {
        for (ends, before, after) in [
            (LineEnds::Lf, "a\r\nb\rc\r\n", "a\nb\rc\n"),
            (LineEnds::Lf, "a\r", "a\r"),
            (LineEnds::CrLf, "a\nb\r\n\n", "a\r\nb\r\n\r\n"),
            (LineEnds::CrLf, "\n", "\r\n"),
        ] {
            let once = ends.applied(before.as_bytes());
            assert_eq!(once, after.as_bytes());
            assert_eq!(ends.applied(&once), once);
        }
    }

    #[test]
    fn attributes_that_only_keep_git_from_converting_do_not_count() {
        assert!(attributes_convert(b"* text=auto\n") && attributes_convert(b"*.bin filter=lfs\n"));
        assert!(!attributes_convert(b"*.png binary\nCargo.lock linguist-generated\n"));
    }
}
