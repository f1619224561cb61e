//! What a session records.

use std::{env, fs, process};

use perfmark::{Filter, Format, Session, Snapshot, perfmark};

use crate::alone::passed_in_own_process;
use crate::child::{fork, in_child};

#[perfmark(time)]
fn inside() {}

#[perfmark(time)]
fn left_out() {}

fn calls(snapshot: &Snapshot, name: &str) -> u64 {
    snapshot.marks.iter().find(|mark| mark.name == name).map_or(0, |mark| mark.calls)
}

#[test]
fn a_session_covers_its_scope_and_restores_the_filter() {
    if passed_in_own_process() {
        return;
    }
    let file = env::temp_dir().join(format!("perfmark-session-{}", process::id()));
    inside();
    left_out();
    let before = "on,*::nothing=off".parse().expect("a filter");
    perfmark::set_filter(&before).expect("slots for settings");
    {
        let session = Session::new().filter(&Filter::default().off("*::left_out")).output(&file).format(Format::Table);
        inside();
        inside();
        left_out();
        let now = session.snapshot();
        assert_eq!((calls(&now, "inside"), calls(&now, "left_out")), (2, 0));
        let nested = Session::new();
        inside();
        assert_eq!(calls(&nested.finish(), "inside"), 1);
    }
    assert_eq!(perfmark::filter(), before);
    let report = fs::read_to_string(&file).expect("the report was written");
    fs::remove_file(&file).expect("there");
    let row = |line: &str| line.starts_with("inside ") && line.split_whitespace().any(|cell| cell == "3");
    assert!(report.lines().any(row) && report.contains("off: left_out"), "{report}");
    let filters = ["*::a=off", "*::b=off", "*::c=off"].map(|filter| filter.parse::<Filter>().expect("a filter"));
    let (first, second) = (Session::new().filter(&filters[0]), Session::new().filter(&filters[1]));
    _ = first.finish();
    assert_eq!(perfmark::filter(), filters[1], "the filter of a session that has not ended");
    _ = second.finish();
    assert_eq!(perfmark::filter(), before);
    let session = Session::new().filter(&filters[0]);
    perfmark::set_filter(&filters[2]).expect("slots for settings");
    _ = session.finish();
    assert_eq!(perfmark::filter(), filters[2], "the program set it after the session's");
    left_out();
    assert_eq!(calls(&perfmark::snapshot(), "left_out"), 2);
    let mut session = Some(Session::new().output(&file));
    assert!(in_child(fork, || session.take().is_some()));
    assert!(!file.exists(), "the session is the parent's");
    _ = session.expect("the parent's").finish();
}
