//! The events in the attribute's arguments. The compiler reports what cannot be an event on any machine, and the report
//! at run time says which events a machine lacks.

use perfmark_rdpmc::{Event, Kind, Modifier};
use proc_macro2::{Ident, Span, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Error, Token};

use crate::spelling;

/// Options that are single words, as events are.
const WORDS: &[&str] = &["fence", "generic", "kernel"];

/// An event in the arguments.
pub(crate) struct NamedEvent {
    source: Source,
    span: Span,
}

#[derive(PartialEq, Eq)]
enum Source {
    /// perfmark defines it. It has this name.
    Own(&'static str),
    /// The kernel counts it.
    Counter(Event),
}

impl Source {
    fn counter(&self) -> Option<&Event> {
        match self {
            Self::Own(_) => None,
            Self::Counter(event) => Some(event),
        }
    }
}

/// Adds an event that is given in quotes. Its name may be that of an event that a PMU lists.
pub(crate) fn add_quoted(events: &mut Vec<NamedEvent>, text: &str, span: Span) -> syn::Result<()> {
    let source = parse(text, span)?;
    if let Some(name) = source.counter().and_then(name_on_pmu)
        && let Some(why) = misspelt(name, &[])
    {
        let on_pmu = format!("If a PMU lists an event of this name, write the PMU, too, as in `\"cpu/{name}/\"`");
        return Err(Error::new(span, if own(name).is_some() { why } else { format!("{why} {on_pmu}") }));
    }
    add(events, source, text, span)
}

/// Adds an event that is given without quotes: a generic event, a raw one, or `time`.
pub(crate) fn add_word(events: &mut Vec<NamedEvent>, word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    if let Some(error) = error_of_phrase(word, input)? {
        return Err(error);
    }
    let text = word.unraw().to_string();
    let source = parse(&text, word.span())?;
    match source.counter().and_then(name_on_pmu) {
        Some(name) => Err(Error::new(word.span(), unknown(name))),
        None => add(events, source, &text, word.span()),
    }
}

/// The name of the event that perfmark defines, if it is one.
fn own(text: &str) -> Option<&'static str> {
    spelling::OWN_EVENTS.into_iter().find(|name| text.replace('-', "_") == *name)
}

fn parse(text: &str, span: Span) -> syn::Result<Source> {
    if let Some(name) = own(text) {
        return Ok(Source::Own(name));
    }
    text.parse().map(Source::Counter).map_err(|error: perfmark_rdpmc::Error| Error::new(span, error.reason()))
}

fn add(events: &mut Vec<NamedEvent>, source: Source, text: &str, span: Span) -> syn::Result<()> {
    if events.iter().any(|known| known.source == source) {
        return Err(Error::new(span, format!("the event `{text}` is specified twice")));
    }
    events.push(NamedEvent { source, span });
    Ok(())
}

/// The name of an event that only a PMU may know.
fn name_on_pmu(event: &Event) -> Option<&str> {
    match event.kind() {
        Kind::Named(name) => Some(name),
        _ => None,
    }
}

/// Why this is not the name of an event, if it is certain. `words` are possible in addition to events.
fn misspelt(name: &str, words: &[&str]) -> Option<String> {
    if let Some(name) = own(name) {
        return Some(format!("`{name}` has no modifiers: write `{name}`"));
    }
    let meant = spelling::meant(name, words)?;
    Some(format!("unknown event `{name}`; did you mean `{meant}`?"))
}

/// Why this name cannot be used without quotes.
fn unknown(name: &str) -> String {
    if let Some(why) = misspelt(name, WORDS) {
        return why;
    }
    let known = match &spelling::similar(name, WORDS)[..] {
        [] => "events are `time`, `on_cpu`, `off_cpu`, `allocations` and perf's generic ones, such as `cycles`, \
             `branch_misses` and `page_faults`"
            .to_owned(),
        similar => format!("similar names are `{}`", similar.join("`, `")),
    };
    format!(
        "unknown event or option `{name}`; {known}; write an event that only some machines have in quotes: \
         `\"{name}\"` (`perfmark events` lists them)"
    )
}

/// The error for an event of several tokens that requires quotes or underscores, such as `branch-misses`.
fn error_of_phrase(word: &Ident, input: ParseStream<'_>) -> syn::Result<Option<Error>> {
    if !(input.peek(Token![-]) || input.peek(Token![/]) || input.peek(Token![:]) || input.peek(Token![.])) {
        return Ok(None);
    }
    let mut rest = Vec::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        rest.push(input.parse::<TokenTree>()?);
    }
    let text: String = rest.iter().map(TokenTree::to_string).collect();
    let text = format!("{}{text}", word.unraw());
    let why = match text.parse::<Event>() {
        Ok(event) => match name_on_pmu(&event).map(|name| misspelt(name, WORDS)) {
            Some(Some(why)) => why,
            None if !text.contains(['/', ':']) => {
                format!("without quotes, an event has underscores for hyphens: write `{}`", text.replace('-', "_"))
            }
            _ => format!("this event requires quotes: write `\"{text}\"`"),
        },
        Err(_) => "an event that is not one word requires quotes, as in `\"cpu/event=0xc2/\"`".to_owned(),
    };
    Ok(Some(Error::new_spanned(quote!(#word #(#rest)*), why)))
}

/// The events' names in the recorder's form. With `kernel`, each also counts in the kernel.
pub(crate) fn names(events: Vec<NamedEvent>, kernel: Option<Span>) -> syn::Result<Vec<String>> {
    if let Some(span) = kernel
        && events.iter().all(|named| named.source.counter().is_none())
    {
        let why = "`kernel` counts the listed events in the kernel, too: list an event that the kernel counts, \
                   as in `instructions, kernel`";
        return Err(Error::new(span, why));
    }
    let name = |NamedEvent { source, span }: NamedEvent| {
        let event = match source {
            Source::Own(name) => return Ok(name.to_owned()),
            Source::Counter(event) => event,
        };
        if kernel.is_none() {
            return Ok(event.to_string());
        }
        let modes = [Modifier::User, Modifier::Kernel, Modifier::Hypervisor];
        if modes.iter().any(|&mode| event.modifiers().contains(mode)) {
            let why = "both this event's modifiers and `kernel` specify the modes in which it counts: \
                       remove one of them";
            return Err(Error::new(span, why));
        }
        Ok(event.with(Modifier::User).with(Modifier::Kernel).to_string())
    };
    events.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use perfmark_rdpmc::{CacheEvent, Hardware, Software};
    use proc_macro2::TokenStream;
    use syn::parse::{ParseStream, Parser as _};

    use crate::args::Args;

    /// The events of these arguments, or the error.
    fn events(args: &str) -> Result<Vec<String>, String> {
        let tokens: TokenStream = args.parse().expect("tokens");
        let parse = |input: ParseStream<'_>| Args::parse(input, "");
        parse.parse2(tokens).map(|args| args.events).map_err(|error| error.to_string())
    }

    #[test]
    fn every_name_of_the_grammar_is_accepted_with_and_without_quotes() {
        let generic = Hardware::ALL.iter().flat_map(|event| event.names());
        let generic = generic.chain(Software::ALL.iter().flat_map(|event| event.names())).map(|&name| name.to_owned());
        let names = generic.chain(CacheEvent::all().map(|event| event.to_string()));
        let others = [
            "time",
            "on-cpu",
            "off-cpu",
            "blocked",
            "preempted",
            "l1d",
            "LLC",
            "l1i_misses",
            "branch_load_misses",
            "r01c2",
            "rC0",
            "r0x1",
        ];
        for name in names.chain(others.map(str::to_owned)) {
            let word = name.replace('-', "_");
            let quoted = events(&format!("{name:?}")).expect("known");
            assert_eq!((events(&word), events(&format!("{word:?}"))), (Ok(quoted.clone()), Ok(quoted)), "{name}");
        }
    }

    #[test]
    fn names_that_a_pmu_may_list_are_accepted_in_quotes_only() {
        for name in ["topdown_retiring", "inst_retired", "cycles_t", "CPU_CYCLES", "nonsense"] {
            assert_eq!(events(&format!("{name:?}")), Ok(vec![name.to_owned()]));
            let message = events(name).expect_err("it is no generic event");
            assert!(message.contains(&format!("in quotes: `\"{name}\"`")), "{message}");
        }
        assert_eq!(events("\"cpu/cycels/\""), Ok(vec!["cpu/cycels/".to_owned()]));
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_name_that_was_meant() {
        for (wrong, meant) in [
            ("cycels", "cycles"),
            ("CYCLES", "cycles"),
            ("branch_mises", "branch_misses"),
            ("pagefaults", "page_faults"),
            ("llc_lods", "LLC_loads"),
            ("walltime", "time"),
            ("CpuTime", "on_cpu"),
            ("instrs", "instructions"),
            ("cache_miss", "cache_misses"),
            ("Time", "time"),
        ] {
            for args in [wrong.to_owned(), format!("{wrong:?}"), format!("\"{wrong}:u\"")] {
                let message = events(&args).expect_err("misspelt");
                assert!(message.starts_with(&format!("unknown event `{wrong}`; did you mean `{meant}`?")), "{message}");
            }
        }
    }
}
