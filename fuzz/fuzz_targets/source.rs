//! Fuzzes files of tasks: no panic, and landing a story changes its marks and no other byte.
#![no_main]

use git_ralph::story::source::{Kind, Material, Page, apply, kind_of, mark_landed, marks};
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 5] = [Kind::OpenSpec, Kind::SpecKit, Kind::Prd, Kind::Plan, Kind::Checklist];

fuzz_target!(|text: &str| {
    let page = Page { name: "tasks.md".to_owned(), text: text.to_owned() };
    let _ = kind_of(&page);
    for kind in KINDS {
        let _ = (Material { kind, main: page.clone(), beside: vec![page.clone()] }).read();
        let Ok(before) = marks(kind, &page) else { continue };
        let Some(story) = before.first().map(|mark| mark.story.clone()) else { continue };
        let marking = mark_landed(kind, &page, &page, &story).expect("what was read once is read again");
        assert!(marking.strays.is_empty());
        let landed = Page { text: apply(text, &marking.edits), ..page.clone() };
        let after = marks(kind, &landed).expect("a file that was ticked is still one");
        assert!(after.iter().filter(|mark| mark.story == story).all(|mark| mark.done));
        assert_eq!(before.len(), after.len());
    }
});
