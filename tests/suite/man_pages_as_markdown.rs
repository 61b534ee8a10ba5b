//! Generates the tables of the manual as pages of docs/: settings from the table of settings, events from `man/sections/events.roff`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use git_ralph::config::{KEYS, change_file_schema};

use crate::golden;

/// Plain text as Markdown: a bar would end a cell, a bracket would begin a tag.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<")
}

fn settings() -> String {
    let mut page =
        "# Settings\n\nThis page is generated from `src/config/table.rs` by `RALPH_BLESS=1 cargo test --test suite -- man_pages`.\n\n\
        The strongest source wins: an option, `git -c ralph.<key>=<value>`, the [change file](#the-change-file), git config, the default.\n\
        `git ralph config` prints every setting with its value and its source.\n\n\
        Durations are written as `45m`, `1h 30m` or `90s`; a bare number means seconds, `none` means no limit.\n\n\
        ## Git config\n"
            .to_owned();
    for key in KEYS {
        let _ = write!(page, "\n### `{}` = `{}`\n\n{}\n\nDefault: {}.", key.name, key.value, cell(key.meaning), cell(key.default));
        if let Some(option) = key.option {
            let _ = write!(page, " Option: `{option}`.");
        }
        if let Some(file) = key.change_file {
            let _ = write!(page, " In the change file: `{file}`.");
        }
        page.push('\n');
    }
    page.push_str(
        "\n## The change file\n\n`.git/ralph/<change>.toml`. `git ralph new` writes it, `git ralph edit` opens and checks it, and\n\
         `git ralph config --schema` prints its JSON schema for editors. It is read again before every story.\n\n\
         | key | meaning |\n|---|---|\n",
    );
    let schema = change_file_schema();
    let rows = |page: &mut String, object: &serde_json::Value| {
        for (key, value) in object["properties"].as_object().unwrap() {
            let _ = writeln!(page, "| `{key}` | {} |", cell(value["description"].as_str().unwrap()));
        }
    };
    rows(&mut page, &schema);
    page.push_str("\nEach `[[story]]` has these keys. Only `id` is required.\n\n| key | meaning |\n|---|---|\n");
    rows(&mut page, &schema["properties"]["story"]["items"]);
    page
}

#[test]
fn the_page_of_settings_is_the_table_of_settings() {
    golden::compare("docs/settings.md", &settings());
}

/// Converts roff to Markdown, as far as `man/sections/events.roff` needs it.
fn markdown(roff: &str) -> String {
    let font = |line: &str| {
        let line = line.replace("\\-", "-").replace("\\(aq", "'").replace("\\(lq", "\"").replace("\\(rq", "\"");
        line.replace("\\fB", "`").replace("\\fI", "`").replace("\\fR", "`").replace("\\&", "").replace("\\e", "\\")
    };
    let (mut text, mut is_tag, mut is_example) = (String::new(), false, false);
    for line in roff.lines() {
        match line.split_once(' ').map_or((line, ""), |(macro_name, rest)| (macro_name, rest)) {
            (".SH", title) => {
                let title = title.trim_matches('"').to_lowercase();
                let _ = write!(text, "\n## {}{}\n\n", title[..1].to_uppercase(), &title[1..]);
            }
            (".TP", _) => is_tag = true,
            (".PP" | ".br", _) => text.push('\n'),
            (".nf", _) => text.push_str("\n```sh\n"),
            (".fi", _) => text.push_str("```\n"),
            (".RS", _) => is_example = true,
            (".RE", _) => is_example = false,
            _ if is_tag => {
                let _ = write!(text, "\n### {}\n\n", font(line));
                is_tag = false;
            }
            _ if is_example => {
                let _ = writeln!(text, "{}", font(line).replace('`', ""));
            }
            _ => {
                let _ = writeln!(text, "{}", font(line));
            }
        }
    }
    text
}

#[test]
fn the_page_of_events_is_the_manual_page() {
    let roff = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("man/sections/events.roff")).unwrap();
    let from = roff.find(".SH DESCRIPTION").unwrap();
    let to = roff.find(".SH \"SEE ALSO\"").or_else(|| roff.find(".SH SEE ALSO")).unwrap_or(roff.len());
    let head = "# Events\n\nThis page is generated from `man git-ralph-events`, by `RALPH_BLESS=1 cargo test --test suite -- man_pages`.\n";
    let text = markdown(&roff[from..to]).replace("\n\n\n", "\n\n");
    golden::compare("docs/events.md", &format!("{head}{text}"));
}
