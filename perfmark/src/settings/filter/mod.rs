//! Filters: which marks record, which events they record, and how. The language of `PERFMARK_FILTER`.

mod pattern;

use std::fmt::{self, Display, Formatter};
use std::mem;
use std::str::FromStr;

#[cfg(feature = "record")]
use self::pattern::matches;
use super::event_list::split_directives;
#[cfg(feature = "record")]
use super::event_spec::{EventError, EventSpec, did_you_mean};
#[cfg(feature = "record")]
use crate::compact::sort_by_key;
use crate::snapshot::path::outside_brackets;

/// Which marks record, which events they record, and how, by patterns of their paths.
///
/// Directives are separated by commas:
///
/// | directive | effect |
/// |---|---|
/// | `app::parser` | these marks record, and no others, except those that another directive names |
/// | `app::parser=off` | these do not |
/// | `app::parser=on` | the same as without `=on` |
/// | `off`, `on` | all marks except those that other directives name |
/// | `app::hot=every:64` | one call in 64 is measured, as with the mark's own `every = 64`; all calls of async functions are |
/// | `app::io=time+page-faults` | these events, instead of the mark's own |
/// | `app::short=fence` | calls do not overlap with their neighbours, as by the mark's own [`fence`](crate::perfmark) |
/// | `app::hot=on+every:64+cycles` | several settings |
///
/// A pattern is compared with the function's path, such as `app::parser::Tree<u8>::insert`. If the mark has another
/// name, as a region does, the name is appended: `app::parser::parse::sort`. A pattern matches a path and everything
/// below it: `app::parser` is the module with its contents, and `app::Tree` the type with all parameters. `*` matches
/// any text, `?` any one character.
///
/// A pattern without `*` and `?` also matches by the end of a path, so that each name in a report is a pattern:
/// `insert`, `Tree::insert` and `Tree<u8>::insert` match the path above. Generic parameters, traits and the modules of
/// types in `<…>` may be left out: `Table::load` matches `<app::Table<u8> as app::Load>::load`. After a leading `::`, a
/// pattern matches this complete path only, and nothing below it. Characters that have a meaning in the language, such
/// as a comma in a region's name, are written by number: `\u{2c}`. `*` and `?` cannot be escaped. A filter has 64 KiB
/// at most.
///
/// A directive with a pattern turns its marks on, unless it or another one for them says `off`. Each setting (`on` or
/// `off`, `every`, events) is that of the longest pattern that matches and has it, and of equally long ones the last:
/// `app=every:64,app::hot=every:1024,app::hot::cold=off`. `on`, `off` and `*` come before all patterns. No directive
/// removes `fence`.
///
/// ```standalone_crate
/// use perfmark::Filter;
///
/// let filter: Filter = "app::parser,app::parser::token=every:64".parse()?;
/// perfmark::set_filter(&filter)?;
/// # perfmark::set_filter(&Filter::default())?;
/// assert!("app::parser=every:0".parse::<Filter>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// By default all marks record, with the settings of their attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    directives: Vec<Directive>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Directive {
    /// Empty for all marks.
    pattern: String,
    settings: Settings,
}

/// The settings of one directive, or of several combined.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Settings {
    pub(crate) is_on: Option<bool>,
    /// `N` of `every:N`: one call in `N` is measured.
    pub(crate) every: Option<u32>,
    /// Names of events, as the user wrote them.
    pub(crate) events: Option<Vec<String>>,
    /// Whether calls have a fence at entry and exit.
    pub(crate) is_fenced: bool,
}

/// An invalid directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError(String);

message_error!(FilterError);

/// Why [`set_filter`](crate::set_filter) or [`set_budget`](crate::set_budget) left some marks as they were: their
/// number, and what to do.
///
/// All marks share 8,192 slots for settings of events, `every`, `fence` and budgets. Turning marks on and off takes no
/// slot, and neither do settings that a mark had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    marks: usize,
    why: String,
}

impl SettingsError {
    #[cfg(feature = "record")]
    pub(crate) fn new(marks: usize, why: String) -> Self {
        Self { marks, why }
    }

    /// The number of marks called so far that keep their former settings. All others follow the new ones.
    #[must_use]
    pub fn marks(&self) -> usize {
        self.marks
    }
}

impl Display for SettingsError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verb = if self.marks == 1 { "mark keeps its" } else { "marks keep their" };
        write!(f, "{} {verb} former settings: {}", self.marks, self.why)
    }
}

impl std::error::Error for SettingsError {}

impl FromStr for Filter {
    type Err = FilterError;

    /// # Errors
    ///
    /// An invalid directive, with the reason. With the feature `record`, events that are unknown on this machine are
    /// invalid, and it reads sysfs for those of a PMU. Without it, all names of events are accepted. Any crate of the
    /// build may enable the feature.
    fn from_str(text: &str) -> Result<Self, FilterError> {
        const LONGEST: usize = 64 << 10;
        if text.len() > LONGEST {
            return Err(FilterError(format!("the filter has {} bytes; the limit is {LONGEST}", text.len())));
        }
        let directives = split_directives(text).into_iter().map(str::trim).filter(|directive| !directive.is_empty());
        Ok(Self { directives: directives.map(Directive::parse).collect::<Result<_, _>>()? })
    }
}

impl Directive {
    fn parse(text: &str) -> Result<Self, FilterError> {
        let on = |is_on| Settings { is_on: Some(is_on), ..Settings::default() };
        let (pattern, settings) = match split_at_equals(text) {
            None if text == "on" || text == "off" => ("", on(text == "on")),
            None => (text, on(true)),
            Some((pattern, settings)) => (pattern.trim(), Settings::parse(text, settings)?),
        };
        if pattern.is_empty() && text.contains('=') {
            return Err(FilterError(format!("`{text}` has no pattern before `=`; use `*` for all marks")));
        }
        let pattern = pattern::read(pattern).map_err(|why| FilterError(format!("`{pattern}`: {why}")))?;
        Ok(Self { pattern, settings })
    }
}

impl Settings {
    fn parse(directive: &str, text: &str) -> Result<Self, FilterError> {
        let mut settings = Self::default();
        for setting in text.split('+').map(str::trim) {
            let is_new = match setting.split_once(':') {
                _ if setting.is_empty() => {
                    let why = "has an empty setting; expected `on`, `off`, `fence`, `every:N` or events, joined by `+`";
                    return Err(FilterError(format!("`{directive}` {why}")));
                }
                None if setting == "on" || setting == "off" => settings.is_on.replace(setting == "on").is_none(),
                None if setting == "fence" => !mem::replace(&mut settings.is_fenced, true),
                Some(("every", number)) => {
                    let every = number.parse().ok().filter(|&every| every > 0);
                    let why = || {
                        format!(
                            "`{setting}`: expected a number from 1 to {}; one call in so many is measured",
                            u32::MAX
                        )
                    };
                    settings.every.replace(every.ok_or_else(|| FilterError(why()))?).is_none()
                }
                _ => {
                    check(setting).map_err(FilterError)?;
                    let events = settings.events.get_or_insert_default();
                    let is_new = events.iter().all(|event| event != setting);
                    events.push(setting.into());
                    is_new
                }
            };
            if !is_new {
                return Err(FilterError(format!(
                    "`{directive}`: `{setting}` repeats or contradicts an earlier setting"
                )));
            }
        }
        Ok(settings)
    }

    #[cfg(feature = "record")]
    fn take(&mut self, other: &Self) {
        self.is_on = other.is_on.or(self.is_on);
        self.every = other.every.or(self.every);
        self.is_fenced |= other.is_fenced;
        if other.events.is_some() {
            self.events.clone_from(&other.events);
        }
    }
}

/// Checks a setting that is not `on`, `off`, `fence` or `every:N`, and is therefore an event. A build without recording
/// knows no events and accepts all.
#[cfg_attr(
    not(feature = "record"),
    allow(clippy::unnecessary_wraps, reason = "nothing is wrong where nothing is recorded")
)]
fn check(event: &str) -> Result<(), String> {
    #[cfg(feature = "record")]
    EventSpec::known(event).map_err(|why| explain(event, &why))?;
    #[cfg(not(feature = "record"))]
    let _ = event;
    Ok(())
}

/// Why the text is no setting. It may be a misspelled one.
#[cfg(feature = "record")]
fn explain(text: &str, why: &EventError) -> String {
    let every = text
        .split_once(':')
        .filter(|(word, number)| number.parse::<u32>().is_ok() && !perfmark_rdpmc::nearest(word, ["every"]).is_empty());
    let suggestion = match every {
        Some((_, number)) => did_you_mean(&[format!("every:{number}")]),
        None => did_you_mean(&perfmark_rdpmc::nearest(text, ["on", "off", "fence"])),
    };
    let suggestion = if suggestion.is_empty() { why.suggestion() } else { suggestion };
    let expected = "expected an event, `on`, `off`, `fence` or `every:N`";
    match (&*suggestion, why.is_unknown_name()) {
        ("", true) => format!("`{text}` is neither a setting nor an event; {expected}"),
        ("", false) => format!("{why}; {expected}"),
        _ => format!("`{text}` is neither a setting nor an event{suggestion}"),
    }
}

/// Splits a directive at its first `=` outside of `<…>`.
fn split_at_equals(text: &str) -> Option<(&str, &str)> {
    let (at, _) = outside_brackets(text).find(|&(_, c)| c == '=')?;
    Some((&text[..at], &text[at + 1..]))
}

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, Directive { pattern, settings }) in self.directives.iter().enumerate() {
            let is_bare = pattern.is_empty() && *settings == Settings { is_on: settings.is_on, ..Settings::default() };
            let is_on = settings.is_on.map(|is_on| if is_on { "on" } else { "off" }.to_owned());
            let every = settings.every.map(|every| format!("every:{every}"));
            let fence = settings.is_fenced.then(|| "fence".to_owned());
            let events = settings.events.iter().flatten().cloned();
            let settings: Vec<String> = is_on.into_iter().chain(every).chain(fence).chain(events).collect();
            let comma = if n == 0 { "" } else { "," };
            let pattern = match pattern.as_str() {
                "" if is_bare => String::new(),
                "" => "*=".into(),
                pattern => pattern::written(pattern) + "=",
            };
            write!(f, "{comma}{pattern}{}", settings.join("+"))?;
        }
        Ok(())
    }
}

impl Filter {
    /// Adds a directive: matching marks record.
    #[must_use]
    pub fn on(self, pattern: &str) -> Self {
        self.and(pattern, Settings { is_on: Some(true), ..Settings::default() })
    }

    /// Adds a directive: matching marks do not record.
    #[must_use]
    pub fn off(self, pattern: &str) -> Self {
        self.and(pattern, Settings { is_on: Some(false), ..Settings::default() })
    }

    /// Adds a directive: of matching marks, one call in `every` is measured. 0 is treated as 1. All calls of
    /// async functions are measured.
    #[must_use]
    pub fn every(self, pattern: &str, every: u32) -> Self {
        self.and(pattern, Settings { every: Some(every.max(1)), ..Settings::default() })
    }

    /// Adds a directive: calls of matching marks have a [`fence`](crate::perfmark).
    #[must_use]
    pub fn fence(self, pattern: &str) -> Self {
        self.and(pattern, Settings { is_fenced: true, ..Settings::default() })
    }

    /// Adds a directive: matching marks record these events.
    ///
    /// # Errors
    ///
    /// The list is empty or has duplicates, or a name has characters that a filter cannot express. With the feature
    /// `record`, also an event that is unknown on this machine.
    pub fn events(self, pattern: &str, events: &[&str]) -> Result<Self, FilterError> {
        for (n, event) in events.iter().enumerate() {
            check(event).map_err(FilterError)?;
            if events[..n].contains(event) {
                return Err(FilterError(format!("the event `{event}` is given twice")));
            }
        }
        let joined = events.join("+");
        let events = Some(events.iter().map(|&event| event.to_owned()).collect());
        let settings = Settings { events, ..Settings::default() };
        // Otherwise `Display` would write a different filter.
        match Filter::from_str(&format!("*={joined}"))?.directives.as_slice() {
            [Directive { settings: read, .. }] if *read == settings => Ok(self.and(pattern, settings)),
            _ => Err(FilterError(format!("`{joined}` cannot be written in a filter"))),
        }
    }

    fn and(mut self, pattern: &str, settings: Settings) -> Self {
        self.directives.push(Directive { pattern: pattern.into(), settings });
        self
    }

    /// Whether it leaves all marks as they are written.
    #[cfg(feature = "record")]
    pub(crate) fn is_empty(&self) -> bool {
        self.directives.is_empty()
    }

    /// The settings for the mark with that path, to which another name is appended.
    #[cfg(feature = "record")]
    pub(crate) fn settings(&self, path: &str) -> Settings {
        let is_general = |directive: &&Directive| directive.pattern.is_empty() || directive.pattern == "*";
        let turns = |directive: &&Directive, is_on: bool| directive.settings.is_on == Some(is_on);
        let says_of_all =
            self.directives.iter().any(|directive| is_general(&directive) && directive.settings.is_on.is_some());
        // A filter that names what to record turns everything else off.
        let is_selection = !says_of_all && self.directives.iter().any(|directive| turns(&directive, true));
        let mut matching: Vec<&Directive> =
            self.directives.iter().filter(|directive| matches(&directive.pattern, path)).collect();
        sort_by_key(&mut matching, |directive| directive.pattern.len());
        let (general, named): (Vec<_>, Vec<_>) = matching.into_iter().partition(is_general);
        let mut settings = Settings { is_on: Some(!is_selection), ..Settings::default() };
        for directive in general {
            settings.take(&directive.settings);
        }
        // A mark that a directive names is on, unless one of them says that it is off.
        if !named.is_empty() {
            settings.is_on = Some(true);
        }
        for directive in named {
            settings.take(&directive.settings);
        }
        settings
    }

    /// Whether it turns the mark with that path on.
    #[cfg(feature = "record")]
    pub(crate) fn has(&self, path: &str) -> bool {
        self.settings(path).is_on != Some(false)
    }

    /// Whether the filter turns that mark on.
    #[cfg(feature = "record")]
    #[must_use]
    pub fn has_mark(&self, mark: &crate::snapshot::Mark) -> bool {
        self.has(&mark.target())
    }

    /// The name in that snapshot that is most similar to the first pattern, for a filter that matches no mark there.
    #[cfg(feature = "record")]
    #[must_use]
    pub fn nearest(&self, snapshot: &crate::snapshot::Snapshot) -> Option<String> {
        let pattern =
            self.directives.iter().map(|directive| &*directive.pattern).find(|pattern| !pattern.is_empty())?;
        crate::snapshot::names::nearest(pattern, &snapshot.names())
    }

    /// The patterns that match none of these paths.
    #[cfg(feature = "record")]
    pub(crate) fn unmatched<'a>(&'a self, paths: &'a [String]) -> impl Iterator<Item = &'a str> {
        let patterns =
            self.directives.iter().map(|directive| &*directive.pattern).filter(|pattern| !pattern.is_empty());
        patterns.filter(|pattern| !paths.iter().any(|path| matches(pattern, path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "record")]
    #[test]
    fn the_longest_pattern_that_matches_holds() {
        let filter: Filter =
            "app=every:64, app::hot=every:1024+time+fence, app::hot::cold=off, lib=off".parse().expect("valid");
        let of = |path| filter.settings(path);
        assert_eq!(of("app::a"), Settings { is_on: Some(true), every: Some(64), ..Settings::default() });
        let time = Settings { events: Some(vec!["time".to_owned()]), is_fenced: true, ..Settings::default() };
        assert_eq!(of("app::hot::a"), Settings { is_on: Some(true), every: Some(1024), ..time.clone() });
        assert_eq!(of("app::hot::cold"), Settings { is_on: Some(false), every: Some(1024), ..time });
        assert_eq!((of("lib").is_on, of("other").is_on), (Some(false), Some(true)));
        let last: Filter = "a=every:2,b=off,a=every:3".parse().expect("valid");
        assert_eq!(last.settings("a").every, Some(3));
    }

    #[cfg(feature = "record")]
    #[test]
    fn a_filter_that_names_what_to_record_turns_everything_else_off() {
        let is_on =
            |filter: &str, path: &str| filter.parse::<Filter>().expect("valid").settings(path).is_on == Some(true);
        for (filter, path, expected) in [
            ("", "a", true),
            ("a", "a::b", true),
            ("a", "b", false),
            ("a=every:2", "b", true),
            ("a,b=every:2", "b", true),
            ("a,b=time", "b::c", true),
            ("a,b=every:2", "c", false),
            ("a,*=every:2", "b", false),
            ("a=off,a::b=every:2", "a::b", false),
            ("off,a=every:2", "a", true),
            ("a=off", "b", true),
            ("on,a=off", "a", false),
            ("off", "a", false),
            ("off,a", "a", true),
            ("a,on", "b", true),
            ("a,off", "b", false),
            ("a=on,*=off", "b", false),
        ] {
            assert_eq!(is_on(filter, path), expected, "{filter} for {path}");
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        let long = "off,app::S<u8, i8>::f=on+every:7+fence,*::g=time+page-faults,h=off";
        assert_eq!(long.parse::<Filter>().expect("valid").to_string(), long);
        let built = Filter::default()
            .on("a")
            .off("a::b")
            .every("c", 0)
            .events("d", &["time", "cycles"])
            .expect("valid")
            .fence("e");
        assert_eq!(built.to_string(), "a=on,a::b=off,c=every:1,d=time+cycles,e=fence");
        assert_eq!(built.to_string().parse(), Ok(built));
        let odd = Filter::default().on("f::a, b").on("c/d").off("a=b").every("S<", 2).off("c");
        assert_eq!(odd.to_string().parse(), Ok(odd));
        let of_all = Filter::default().every("", 5).off("");
        assert_eq!(of_all.to_string(), "*=every:5,off");
        let parameter = "S<dyn Iterator<Item = u8>>::f=off";
        assert_eq!(parameter.parse::<Filter>().expect("valid").to_string(), parameter);
        for events in
            [&["off"][..], &["fence"], &["every:3", "time"], &["time", "time"], &[], &[" time"], &["time,off"]]
        {
            assert!(Filter::default().events("a", events).is_err(), "{events:?}");
        }
        assert_eq!("".parse(), Ok(Filter::default()));
    }

    #[test]
    fn the_slash_of_a_breakpoint_is_not_a_pmus() {
        let filter: Filter = "a=mem:0x1000/4:w,b=off".parse().expect("two directives");
        assert_eq!(filter, Filter::default().events("a", &["mem:0x1000/4:w"]).expect("valid").off("b"));
    }

    #[test]
    fn invalid_filters_are_refused_with_the_reason() {
        for (text, part) in [
            ("=on", "use `*` for all marks"),
            ("a=", "has an empty setting"),
            ("a=on+", "has an empty setting"),
            ("a=every:0", "from 1 to"),
            ("a=every:x", "from 1 to"),
            ("a=on+off", "repeats or contradicts"),
            ("a=time+time", "repeats or contradicts"),
            ("a=fence+fence", "repeats or contradicts"),
            ("a b", r"a pattern cannot contain a space; separate directives by commas, or write `\u{20}` in a name"),
        ] {
            let why = text.parse::<Filter>().expect_err(text).to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
        // A build without recording knows no events, and reads no environment.
        #[cfg(feature = "record")]
        {
            assert!(
                "a,".repeat(32 << 10).parse::<Filter>().is_ok() && "a,".repeat(33 << 10).parse::<Filter>().is_err()
            );
            for (text, why) in [
                ("a=cycels", "`cycels` is neither a setting nor an event; did you mean `cycles`"),
                ("a=evry:4", "`evry:4` is neither a setting nor an event; did you mean `every:4`?"),
                ("a=of", "`of` is neither a setting nor an event; did you mean `off`, `on`?"),
                ("a=something-else", "`something-else` is neither a setting nor an event; expected an event, `on`"),
                ("a=every:0", "`every:0`: expected a number from 1 to"),
            ] {
                let error = text.parse::<Filter>().expect_err("no event").to_string();
                assert!(error.starts_with(why), "{error}");
            }
        }
    }
}
