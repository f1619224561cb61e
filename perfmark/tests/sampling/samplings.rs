//! Several samplings of one program, one after another, and several events of one.

use perfmark::{Sampling, Stacks, perfmark};

use crate::alone::alone;
use crate::loops::{spin_seven, spin_three};
use crate::pages::touch;
use crate::sampled::{sampled, wait_until_sampled};

#[perfmark(time)]
#[inline(never)]
fn again(times: u64) {
    spin_seven(times);
}

#[test]
fn a_thread_is_sampled_again_with_former_settings() {
    let _alone = alone();
    for frequency in [3_001, 1_009, 3_001] {
        let work = || {
            wait_until_sampled();
            again(900_000);
        };
        let Some(sampled) = sampled(Sampling::new().frequency(frequency), work) else { return };
        assert_eq!(sampled.samples().frequency, Some(frequency));
        let [_, in_loop] = sampled.in_loops(Some("again"));
        println!("{in_loop} samples at {frequency} Hz");
        assert!(in_loop > 0);
    }
}

#[perfmark(time)]
#[inline(never)]
fn faulting(pages: usize) {
    spin_three(800_000);
    touch(pages);
}

#[test]
fn several_events_have_their_own_samples() {
    let _alone = alone();
    let sampling = Sampling::new().frequency(3_001).and("page_faults").period(7).stacks(Stacks::Off);
    let work = || {
        wait_until_sampled();
        (0..10).for_each(|_| faulting(300));
    };
    let Some(sampled) = sampled(sampling, work) else { return };
    let taken: Vec<_> = sampled.0.samples.iter().filter(|samples| samples.taken() > 0).collect();
    let [time, faults] = taken[..] else { panic!("{taken:?}") };
    assert_eq!((time.frequency, faults.period), (Some(3_001), Some(7)));
    assert!(faults.event.starts_with("page-faults"), "{}", faults.event);
    let mark = Some(sampled.mark("faulting"));
    let lost = time.lost + faults.lost;
    println!("{} and {} samples, {lost} lost", time.of_mark(mark), faults.of_mark(mark));
    assert!(time.of_mark(mark) > 0 && faults.of_mark(mark) + lost >= 10 * 300 / 7);
}
