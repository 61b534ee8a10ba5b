//! Tests that the JSON schema of the change file accepts and rejects the same files as the program.

use std::fs;
use std::path::Path;

use git_ralph::config::{change_file_schema, change_file_template, parse_change_file, sourced_change_file};
use regex_lite::Regex;
use serde_json::Value;

use crate::support::World;

const STORY: &str = "[[story]]\nid = \"1\"\n";

/// The violations of a schema by a value. Every keyword that the schema uses must be implemented here.
fn against(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let keywords = schema.as_object().unwrap().iter();
    keywords.flat_map(|(keyword, rule)| keyword_against(schema, (keyword, rule), value, at)).collect()
}

fn keyword_against(schema: &Value, (keyword, rule): (&str, &Value), value: &Value, at: &str) -> Vec<String> {
    let fits = |schema: &Value| against(schema, value, at).is_empty();
    let length = || value.as_str().map(|text| text.chars().count() as u64);
    let is_right = match keyword {
        "$schema" | "title" | "description" => true,
        "type" => rule.as_str().unwrap() == kind(value) || (rule == "number" && kind(value) == "integer"),
        "enum" => rule.as_array().unwrap().contains(value),
        "pattern" => value.as_str().is_none_or(|text| Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
        "minLength" => length().is_none_or(|length| length >= rule.as_u64().unwrap()),
        "maxLength" => length().is_none_or(|length| length <= rule.as_u64().unwrap()),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "exclusiveMinimum" => value.as_f64().is_none_or(|number| number > rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "minItems" => value.as_array().is_none_or(|list| list.len() as u64 >= rule.as_u64().unwrap()),
        "required" => rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
        "allOf" => rule.as_array().unwrap().iter().all(fits),
        "anyOf" => rule.as_array().unwrap().iter().any(fits),
        "oneOf" => rule.as_array().unwrap().iter().filter(|schema| fits(schema)).count() == 1,
        "not" => !fits(rule),
        "additionalProperties" => {
            assert_eq!(rule, false);
            let known = schema["properties"].as_object().unwrap();
            value.as_object().is_none_or(|object| object.keys().all(|name| known.contains_key(name)))
        }
        "items" => {
            let items = value.as_array().into_iter().flatten().enumerate();
            return items.flat_map(|(n, item)| against(rule, item, &format!("{at}[{n}]"))).collect();
        }
        "properties" => {
            let properties = rule.as_object().unwrap().iter();
            let known = properties.filter_map(|(name, schema)| Some((name, schema, value.get(name)?)));
            return known.flat_map(|(name, schema, value)| against(schema, value, &format!("{at}.{name}"))).collect();
        }
        other => panic!("the schema uses '{other}', which this test does not check"),
    };
    if is_right { Vec::new() } else { vec![format!("{at}: {keyword}")] }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The violations of the schema by a change file.
fn refused(text: &str) -> Vec<String> {
    against(&change_file_schema(), &toml::from_str::<Value>(text).unwrap(), "")
}

/// The template with every commented key enabled, except for `agent`, which excludes `command`.
fn filled_in() -> String {
    let uncommented = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.contains(" = ") || rest.starts_with("\"\"\"") => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    change_file_template("x").lines().filter(|line| !line.starts_with("# agent")).map(uncommented).collect()
}

#[test]
fn the_schema_accepts_new_change_files_and_every_example_of_the_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = vec![change_file_template("x"), filled_in(), sourced_change_file("x", "plan.md", &["make".to_owned()])];
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    for document in pages.chain([root.join("README.md")]) {
        let text = fs::read_to_string(document).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        texts.extend(blocks.filter(|block| block.contains("[[story]]") || block.contains("source =")).map(str::to_owned));
    }
    assert!(texts.len() >= 5, "only {} change files were found", texts.len());
    for text in texts {
        assert_eq!(refused(&text), [""; 0], "{text}");
        parse_change_file(&text, "x.toml").unwrap();
    }
}

#[test]
fn the_schema_refuses_broken_change_files() {
    let table = [
        (String::new(), ": oneOf"),
        ("title = 'x'".to_owned(), ": oneOf"),
        (format!("source = 'x'\n{STORY}"), ": oneOf"),
        ("source = ''".to_owned(), ".source: minLength"),
        ("story = []".to_owned(), ".story: minItems"),
        ("[story]\nid = '1'".to_owned(), ".story: type"),
        (format!("verfy = []\n{STORY}"), ": additionalProperties"),
        ("[[story]]\ntitle = 'x'".to_owned(), ".story[0]: required"),
        (format!("{STORY}titel = 'x'"), ".story[0]: additionalProperties"),
        ("[[story]]\nid = \"a\\nb\"".to_owned(), ".story[0].id: pattern"),
        (format!("agent = 'a'\ncommand = ['b']\n{STORY}"), ": not"),
        (format!("command = []\n{STORY}"), ".command: minItems"),
        (format!("max-retries = -1\n{STORY}"), ".max-retries: minimum"),
        (format!("jobs = 0\n{STORY}"), ".jobs: minimum"),
        (format!("attempt-timeout = 'soon'\n{STORY}"), ".attempt-timeout: anyOf"),
        (format!("finish = 'later'\n{STORY}"), ".finish: enum"),
        (format!("order = 'graph'\n{STORY}"), ".order: enum"),
        (format!("max-cost = -5\n{STORY}"), ".max-cost: anyOf"),
    ];
    for (text, expected) in table {
        assert!(refused(&text).contains(&expected.to_owned()), "{text}: {:?}", refused(&text));
        assert!(parse_change_file(&text, "x.toml").is_err(), "{text}");
    }
}

/// Compares schema and program with every kind of value for every key.
#[test]
fn schema_and_program_agree_on_every_key_and_kind_of_value() {
    let samples = [
        "true",
        "0",
        "1",
        "90",
        "-1",
        "4294967296",
        "1.5",
        "-0.5",
        "''",
        "' '",
        "'1'",
        "'x y'",
        "'45m'",
        "'1h 30m'",
        "'-5m'",
        "\'soon\'",
        "\'{id}: {title}\'",
        "\'{story}\'",
        "\'{id\'",
        "\'{ {id}\'",
        "'none'",
        "'5M'",
        "'0k'",
        "'2.50'",
        "'$3'",
        "'ask'",
        "'any'",
        "'cleanup'",
        "[]",
        "['1']",
        "['x', 'y']",
        "[1]",
        "[['x']]",
        "{ a = 1 }",
        "\"a\\tb\"",
    ];
    let schema = change_file_schema();
    let names = |schema: &Value| schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut accepted = 0;
    let mut check = |text: String| {
        let (refused, parsed) = (refused(&text), parse_change_file(&text, "x.toml"));
        // A schema cannot check which stories exist.
        let is_fine = parsed.as_ref().err().is_none_or(|why| why.contains("unknown story") || why.contains("in a circle"));
        // The schema does not check the units of durations.
        if refused.is_empty() && parsed.as_ref().is_err_and(|why| why.contains("is not a duration")) {
            return;
        }
        assert_eq!(refused.is_empty(), is_fine, "{text}\nschema: {refused:?}\nprogram: {parsed:?}");
        accepted += usize::from(is_fine);
    };
    for value in samples {
        for name in names(&schema).iter().filter(|name| *name != "story") {
            let rest = if name == "source" { "" } else { STORY };
            check(format!("{name} = {value}\n{rest}"));
        }
        for name in names(&schema["properties"]["story"]["items"]) {
            let id = if name == "id" { "" } else { "id = '1'\n" };
            check(format!("[[story]]\n{id}{name} = {value}\n"));
        }
    }
    assert!(accepted > 100, "only {accepted} values were accepted");
}

#[test]
fn config_prints_the_schema_anywhere_and_new_writes_it_where_change_files_look_for_it() {
    let printed = World::empty().ralph(&["config", "--schema"]).code(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), change_file_schema());
    let world = World::new();
    // An agent can write there, so a link must not redirect the schema into another file.
    fs::create_dir(world.path(".git/ralph")).unwrap();
    world.write("mine", "mine\n");
    std::os::unix::fs::symlink(world.path("mine"), world.path(".git/ralph/schema.json")).unwrap();
    world.write("plan.md", "- [ ] one\n");
    for args in [&["new", "own"][..], &["new", "sourced", "--from", "plan.md"]] {
        let path = world.ralph(args).code(0).stdout.lines().next().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let named = text.lines().next().unwrap().strip_prefix("#:schema ./").unwrap().to_owned();
        assert_eq!(fs::read_to_string(Path::new(&path).with_file_name(named)).unwrap(), printed);
    }
    assert_eq!(world.read("mine"), "mine\n");
    world.ralph(&["list"]).code(0).says("own").says("sourced");
}
