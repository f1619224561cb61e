//! Tests of the grammar: accepted texts, how they are written, and the errors for all others.

use super::*;
use crate::machine::Machine;

fn parse(text: &str) -> Event {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn message(text: &str) -> String {
    match text.parse::<Event>() {
        Ok(event) => panic!("{text:?} is {event:?}"),
        Err(error) => {
            assert!(error.is_invalid_event() && !error.is_unknown_name(), "{error}");
            error.to_string()
        }
    }
}

#[test]
fn every_generic_name_parses_as_its_event() {
    let all = Hardware::ALL.iter().map(|&event| Event::from(event));
    let all = all.chain(Software::ALL.iter().map(|&event| event.into())).chain(CacheEvent::all().map(Event::from));
    for event in all.chain([0, 0xef, 0x1c2, u64::MAX].map(Event::raw)) {
        assert_eq!(event.to_string().parse(), Ok(event.clone()));
        assert_eq!(event.to_string().replace('-', "_").parse(), Ok(event.clone()), "as a Rust identifier");
        let full = Modifier::ALL.iter().fold(event, |event, &modifier| event.with(modifier));
        assert_eq!(full.to_string().parse(), Ok(full));
    }
}

/// Accepted texts, and how they are written.
const WRITTEN: &[(&str, &str)] = &[
    ("cpu-cycles", "cycles"),
    ("branch-instructions:uk", "branches:uk"),
    ("cycles:ku", "cycles:uk"),
    ("cycles:HGIDeu", "cycles:uGHIDe"),
    ("cycles//u", "cycles:u"),
    ("cs:k", "context-switches:k"),
    ("l1d-miss", "L1-dcache-load-misses"),
    ("LLC", "LLC-loads"),
    ("llc_stores", "LLC-stores"),
    ("rC2", "rc2"),
    ("r0x01c2:u", "r1c2:u"),
    ("r0xef", "r0xef"),
    ("ref", "ref"),
    ("1:2", "1:0x2"),
    ("0x4:0x3c:u", "4:0x3c:u"),
    ("mem-loads", "mem-loads"),
    ("topdown_retiring:u", "topdown_retiring:u"),
    ("sched:sched_switch", "sched:sched_switch"),
    ("sched:sched_switch:k", "sched:sched_switch:k"),
    ("9p:9p_client_req", "9p:9p_client_req"),
    ("9p:9p_client_req:k", "9p:9p_client_req:k"),
    ("mac802154:802154_drv_start:u", "mac802154:802154_drv_start:u"),
    ("0o17:010", "15:0xa"),
    ("my-system:event.1:ku", "my-system:event.1:uk"),
    ("mem:0x1000", "mem:0x1000:rw"),
    ("mem:4096/8:w", "mem:0x1000/8:w"),
    ("mem:0x1000:wr:u", "mem:0x1000:rw:u"),
    ("mem:0x1000/1:u", "mem:0x1000/1:rw:u"),
    ("mem:0x1000:x", "mem:0x1000:x"),
    ("cpu//", "cpu//"),
    ("cpu/event=0xc2,umask=1,inv/u", "cpu/event=0xc2,umask=0x1,inv/u"),
    ("cpu/event=194,cmask=0o17/:uk", "cpu/event=0xc2,cmask=0xf/uk"),
    ("cpu/event=010/", "cpu/event=0xa/"),
    ("cpu/r01c2/", "cpu/config=0x1c2/"),
    ("cpu/0x1c2/", "cpu/config=0x1c2/"),
    ("cpu/r0xef/", "cpu/config=0xef/"),
    ("cpu/ref/", "cpu/ref/"),
    ("cpu/config=1,config1=2,config2=3,config3=4/", "cpu/config=0x1,config1=0x2,config2=0x3,config3=0x4/"),
    ("cpu/mem-loads,ldlat=30,name=loads/", "cpu/mem-loads,ldlat=0x1e,name=loads/"),
    ("cpu/event=1,name='LSD.UOPS:cmask=0x1'/", "cpu/event=0x1,name=LSD.UOPS:cmask=0x1/"),
    ("cpu/event=1,name='a, b'/", "cpu/event=0x1,name='a, b'/"),
    ("cpu/event=1,name=5/", "cpu/event=0x1,name=5/"),
    ("uprobe/path=/lib/x.so,offset=0x20,retprobe/u", "uprobe/path=/lib/x.so,offset=0x20,retprobe/u"),
    ("uprobe/path='/tmp/a b, c',offset=0/", "uprobe/path='/tmp/a b, c',offset=0x0/"),
    ("stall_slot/threshold=2/", "stall_slot/threshold=0x2/"),
    ("cycles/threshold=2/u", "cycles/threshold=0x2/u"),
];

#[test]
fn the_text_of_an_event_parses_as_the_same_event() {
    for &(text, written) in WRITTEN {
        let event = parse(text);
        assert_eq!(event.to_string(), written, "{text}");
        assert_eq!(parse(written), event, "{text}");
    }
}

#[test]
fn an_invalid_text_is_refused_with_the_reason() {
    for (text, reason) in [
        ("", "the event is empty"),
        ("cycles ", "' ' cannot be part of an event's name"),
        ("cycles,instructions", "a list of events"),
        ("{cycles}", "a list of events"),
        ("r12345678901234567", "more than 64 bits"),
        ("12", "a number alone is not an event"),
        ("1:x", "the config: \"x\" is not a number"),
        ("0xg:1", "the type: \"0xg\" is not a number"),
        ("12a:1", "the type: \"12a\" is not a number"),
        ("99999999999999999999:1", "more than 64 bits"),
        ("9p", "the name of an event must begin with a letter, and \"9p\" does not"),
        ("9p:9p_client_req:u:k", "more than one list of modifiers"),
        ("9p:", "the name of a tracepoint must begin with a letter"),
        ("sched:12", "the name of a tracepoint must begin with a letter, and \"12\" does not"),
        ("4294967296:1", "more than 32 bits"),
        ("cycles:", "modifiers are missing"),
        ("cycles:uu", "the modifier u is given twice"),
        ("cycles:x", "there is no modifier 'x'; expected one of ukhGHIDe"),
        ("cycles:u:k", "more than one list of modifiers"),
        ("sched:uk:u", "is a list of modifiers"),
        ("sched:sched_*", "is a pattern for several"),
        ("sched:", "the name of a tracepoint must begin with a letter"),
        ("mem:", "the address: \"\" is not a number"),
        ("mem", "its address is missing"),
        ("dummy:u", "it counts nothing"),
        ("duration_time:u", "it is a clock of the perf tool"),
        ("mem:0x10/9", "the length 9 is not 1 to 8 bytes"),
        ("mem:0x10:rwx", "executions (x) cannot be combined"),
        ("mem:0x10:rr", "is not one of r, w, rw, x"),
        ("mem:0x10:r:u:u", "too many parts"),
        ("cpu/event=1", "the second / is missing"),
        ("uprobe/path=/lib/x.so,offset=0x20", "the second / is missing, as in uprobe/path="),
        ("uprobe/offset=0x20,path=/lib/x.so", "the second / is missing, as in uprobe/path="),
        ("uprobe/path='/tmp/a, b',offset=0x20", "the second / is missing, as in uprobe/path="),
        ("uprobe/path=/lib/x.so,offset=0x20/x", "there is no modifier 'x'"),
        ("/event=1/", "the name of a PMU must begin with a letter"),
        ("uncore_imc_*/event=1/", "is a pattern for several"),
        ("cpu/event=1,/", "a term is missing"),
        ("cpu/event=1,event=2/", "the term event is given twice"),
        ("cpu/=1/", "a term is missing"),
        ("cpu/event=/", "nothing follows event="),
        ("cpu/event=0x/", "is not a number"),
        ("cpu/event=0x10000000000000000/", "more than 64 bits"),
        ("cpu/event=1x/", "is not a number"),
        ("cpu/12/", "write config=12 for a number"),
        ("cpu/name='a/", "a ' is not closed"),
        ("cpu/é=1/", "'é' cannot be part of a term's name"),
        ("dummy", "it counts nothing"),
        ("bpf-output", "it counts nothing"),
        ("../x/event=1/", "the name of a PMU must begin with a letter"),
    ] {
        let error = message(text);
        assert!(error.starts_with(&format!("event {text:?}: ")) && error.contains(reason), "{error}");
    }
}

#[test]
fn modifiers_that_do_not_apply_to_counting_are_refused_by_name() {
    for (letter, reason) in [
        ('p', "more precise"),
        ('P', "as precise as possible"),
        ('S', "a group's leader sample"),
        ('W', "splits a group"),
        ('b', "perf stat"),
        ('R', "latency"),
        ('X', "perf stat"),
    ] {
        for text in [format!("cycles:u{letter}"), format!("cpu/event=1/{letter}"), format!("mem:0x10:w:{letter}")] {
            let error = message(&text);
            assert!(
                error.contains(&format!("the modifier {letter} does not apply to counting")) && error.contains(reason),
                "{error}"
            );
        }
    }
}

#[test]
fn an_event_knows_whether_it_is_hardware_or_time() {
    assert!(parse("cpu/event=1/").is_hardware() && parse("LLC-loads").is_hardware() && parse("r1").is_hardware());
    assert!(!parse("page-faults").is_hardware() && !parse("msr/tsc/").is_hardware() && !parse("1:2").is_hardware());
    assert!(parse("task-clock:u").is_time() && !parse("cycles").is_time());
    for text in ["1:0", "1:1:u", "software/config=1/", "software/config=0,name=mine/u", "software//"] {
        assert!(parse(text).is_time(), "{text}");
    }
    for text in ["1:2", "1:0x100000000", "0:1", "software/config=2/", "cpu/config=1/"] {
        assert!(!parse(text).is_time(), "{text}");
    }
    assert_eq!(parse("cpu/event=1,name=mine/").label(), Some("mine"));
    assert_eq!(parse("cycles:uk").modifiers(), [Modifier::Kernel, Modifier::User].into_iter().collect());
}

/// A small generator of a fixed sequence of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap_or(0) % limit
    }
}

/// The fuzz targets in `fuzz/` do this for longer, guided by coverage.
#[test]
fn no_text_panics_and_every_event_parses_again() {
    let machines = ["alder-lake", "big-little", "skylake-server", "zen", "armv8.8-threshold"];
    let machines = machines.map(Machine::fixture);
    let pieces: Vec<&str> = WRITTEN
        .iter()
        .flat_map(|(text, _)| text.split_inclusive(['/', ':', ',', '=', '-']))
        .chain(["'", "\0", "é", "?", "*", "0x", "18446744073709551616", "slots", "threshold_count", " "])
        .collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut events = 0;
    for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
        let text: String = (0..=random.below(6)).map(|_| pieces[random.below(pieces.len())]).collect();
        let Ok(event) = text.parse::<Event>() else { continue };
        assert_eq!(event.to_string().parse(), Ok(event.clone()), "{text:?}");
        events += 1;
        if random.below(20) == 0 {
            _ = event.resolve(&machines[random.below(machines.len())]);
        }
    }
    assert!(events > 10, "{events}");
}
