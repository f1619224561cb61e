//! The report for spreadsheets and data frames: one row per mark and event, in the format of RFC 4180.
//!
//! Columns have the names of the JSON report, and the last one has the mark's name in tables. A mark without values,
//! such as one never called, has a row without an event.

use csv::{Terminator, WriterBuilder};

use super::share::Shares;
use super::view::Sort;
use crate::snapshot::{Mark, Snapshot, Unit, Values};
use crate::text::sanitize;

struct Row<'a> {
    label: &'a str,
    mark: &'a Mark,
    values: Option<&'a Values>,
    unit: Unit,
}

impl Row<'_> {
    fn value<T: ToString>(&self, of: impl Fn(&Values) -> T) -> String {
        self.values.map(|values| of(values).to_string()).unwrap_or_default()
    }

    fn known<T: ToString>(&self, of: impl Fn(&Values) -> Option<T>) -> String {
        self.values.and_then(of).map(|value| value.to_string()).unwrap_or_default()
    }
}

/// A cell of text that no spreadsheet treats as a formula (OWASP, "CSV Injection"). An apostrophe is put before a text
/// that begins like a formula or with an apostrophe; tabs and line ends are replaced. Numbers, including negative ones,
/// have no apostrophe.
fn text(text: &str) -> String {
    let mut cell = sanitize(text);
    if cell.starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\'']) {
        cell.insert(0, '\'');
    }
    cell
}

type Column = (&'static str, fn(&Row<'_>) -> String);

const COLUMNS: [Column; 44] = [
    ("name", |row| text(&row.mark.name)),
    ("path", |row| text(&row.mark.path)),
    ("file", |row| text(&row.mark.file)),
    ("line", |row| row.mark.line.to_string()),
    ("type_hash", |row| row.mark.type_hash.to_string()),
    ("on", |row| row.mark.on.to_string()),
    ("calls", |row| row.mark.calls.to_string()),
    ("in_flight", |row| row.mark.in_flight.to_string()),
    ("unwound", |row| row.mark.unwound.to_string()),
    ("cancelled", |row| row.mark.cancelled.to_string()),
    ("polls", |row| row.mark.polls.to_string()),
    ("interrupted", |row| row.mark.interrupted.to_string()),
    ("every", |row| row.mark.every.to_string()),
    ("budget_percent", |row| row.mark.budget_percent.map(|percent| percent.to_string()).unwrap_or_default()),
    ("skipped", |row| row.mark.skipped.to_string()),
    ("overhead_ns", |row| row.mark.overhead_ns.map(|ns| ns.to_string()).unwrap_or_default()),
    ("event", |row| row.value(|values| text(&values.event))),
    ("unit", |row| row.value(|_| if row.unit == Unit::Ns { "ns" } else { "count" })),
    ("measured", |row| row.value(|values| values.measured)),
    ("weight", |row| row.value(|values| values.weight)),
    ("scaled", |row| row.value(|values| values.scaled)),
    ("unmeasured", |row| row.value(|values| values.unmeasured)),
    ("imputed", |row| row.value(|values| values.imputed)),
    ("sum", |row| row.value(|values| values.sum)),
    ("total", |row| row.value(|values| values.total)),
    ("missing_outermost", |row| row.value(|values| values.missing_outermost)),
    ("extrapolated", |row| row.value(|values| values.extrapolated)),
    ("estimated", |row| row.value(|values| values.estimated)),
    ("self", |row| row.known(|values| values.self_sum)),
    ("unwound_total", |row| row.value(|values| values.unwound_total)),
    ("unwound_self", |row| row.value(|values| values.unwound_self)),
    ("in_flight_total", |row| row.value(|values| values.in_flight_total)),
    ("in_flight_self", |row| row.value(|values| values.in_flight_self)),
    ("min", |row| row.known(|values| values.min)),
    ("max", |row| row.known(|values| values.max)),
    ("mean", |row| row.known(|values| values.mean.filter(|mean| mean.is_finite()))),
    ("p50", |row| row.known(|values| values.p50)),
    ("p90", |row| row.known(|values| values.p90)),
    ("p99", |row| row.known(|values| values.p99)),
    ("p999", |row| row.known(|values| values.p999)),
    ("overhead_in_call", |row| row.value(|values| values.overhead.in_call)),
    ("overhead_total", |row| row.value(|values| values.overhead.total)),
    ("overhead_noise", |row| row.value(|values| values.overhead.noise)),
    ("label", |row| text(row.label)),
];

/// The rows, below the columns' names. Marks are in the order of the table, and those never called are at the end.
pub(super) fn render(snapshot: &Snapshot, sort: Sort) -> String {
    let shares = Shares::new(snapshot);
    let labels = snapshot.names();
    let mut out = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    // Writing to memory, with the same number of cells in each row, does not fail.
    _ = out.write_record(COLUMNS.map(|(name, _)| name));
    for index in shares.order(sort) {
        let (mark, label) = (&snapshot.marks[index], labels[index].as_str());
        let rows = mark.values.iter().map(Some);
        for values in rows.chain(mark.values.is_empty().then_some(None)) {
            let unit = values.map_or(Unit::Count, |values| shares.unit(&values.event));
            _ = out.write_record(COLUMNS.map(|(_, cell)| cell(&Row { label, mark, values, unit })));
        }
    }
    out.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{self, mark, snapshot, values};
    use crate::snapshot::{Overhead, Read};

    #[test]
    fn each_mark_and_event_is_a_row_of_plain_numbers() {
        let mut one = mark("say \"a, b\"", 12_345);
        one.values = vec![Values {
            scaled: 1,
            unmeasured: 2,
            imputed: 1,
            missing_outermost: 3,
            extrapolated: true,
            self_sum: None,
            mean: Some(0.25),
            overhead: Overhead { in_call: 4, total: 5, noise: 6 },
            ..values("time", 10_000, 2_500)
        }];
        let never = Mark { on: false, ..mark("never", 0) };
        let events = [sample::event("time", Unit::Ns, Read::Ticks)];
        let expected = "\
name,path,file,line,type_hash,on,calls,in_flight,unwound,cancelled,polls,interrupted,every,budget_percent,skipped,\
overhead_ns,event,unit,measured,weight,scaled,unmeasured,imputed,sum,total,missing_outermost,extrapolated,estimated,\
self,unwound_total,unwound_self,in_flight_total,in_flight_self,min,max,mean,p50,p90,p99,p999,overhead_in_call,\
overhead_total,overhead_noise,label\r
\"say \"\"a, b\"\"\",\"wordcount::say \"\"a, b\"\"\",src/main.rs,7,0,true,12345,0,0,0,0,0,1,,0,,time,ns,10000,10000,\
1,2,1,2500,2500,3,true,0,,0,0,0,0,0,0,0.25,0,0,0,0,4,5,6,\"say \"\"a, b\"\"\"\r
never,wordcount::never,src/main.rs,7,0,false,0,0,0,0,0,0,1,,0,,,,,,,,,,,,,,,,,,,,,,,,,,,,,never\r
";
        assert_eq!(render(&snapshot(&events, &[one, never]), Sort::default()), expected);
    }

    #[test]
    fn no_cell_is_a_formula_and_numbers_stay_numbers() {
        for (name, cell) in [
            ("=1+1", "'=1+1"),
            ("+f", "'+f"),
            ("-f", "'-f"),
            ("@f", "'@f"),
            ("\tf", "\u{fffd}f"),
            ("\r=f", "\u{fffd}=f"),
            ("＝f", "'＝f"),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            // One that begins with an apostrophe has another one, so that a reader may always remove one.
            ("'a", "''a"),
            ("a=b", "a=b"),
            ("<T as U>::f", "<T as U>::f"),
        ] {
            let mut one = Mark { path: name.into(), file: name.into(), ..mark(name, 1) };
            let below_zero = Values { mean: Some(-2.5), ..values(name, 1, 7) };
            one.values = vec![below_zero];
            let text = render(&snapshot(&[], &[one]), Sort::default());
            let row = text.lines().nth(1).expect("a row");
            assert!(row.starts_with(&format!("{cell},{cell},{cell},7,")), "{row}");
            assert!(row.contains(&format!(",{cell},count,1,")) && row.contains(",-2.5,"), "{row}");
        }
    }

    /// Reads a cell as the guide describes.
    fn read_back(cell: &str) -> &str {
        cell.strip_prefix('\'').unwrap_or(cell)
    }

    #[test]
    fn every_row_of_any_snapshot_is_read_back() {
        for snapshot in sample::nasty() {
            let text = render(&snapshot, Sort::default());
            assert!(!text.replace("\r\n", "").contains(char::is_control), "{text:?}");
            let rows: Vec<csv::StringRecord> =
                csv::Reader::from_reader(text.as_bytes()).into_records().collect::<Result<_, _>>().expect("CSV");
            assert_eq!(rows.len(), snapshot.marks.iter().map(|mark| mark.values.len().max(1)).sum::<usize>());
            let mut names: Vec<_> = rows.iter().map(|row| (read_back(&row[0]), read_back(&row[16]))).collect();
            let of = |mark: &Mark| -> Vec<_> {
                let events = mark.values.iter().map(|values| sanitize(&values.event));
                let events = events.chain(mark.values.is_empty().then(String::new));
                events.map(|event| (sanitize(&mark.name), event)).collect()
            };
            let mut expected: Vec<_> = snapshot.marks.iter().flat_map(of).collect();
            names.sort_unstable();
            expected.sort_unstable();
            assert!(names.into_iter().eq(expected.iter().map(|(name, event)| (name.as_str(), event.as_str()))));
        }
    }
}
