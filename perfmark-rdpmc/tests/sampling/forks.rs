//! Rings in a forked child, and in one made by a bare `clone(2)`.

use perfmark_rdpmc::sample::{self, Content, Ring, Sampler};
use perfmark_rdpmc::{Attr, Error, Software};

use super::child::{fork, in_child};
use super::faults::{faults, sampled, touch};
use super::open;

/// Without the C library, so no fork handler runs.
fn bare_clone() -> libc::pid_t {
    // SAFETY: the child's work is this test's. It shares nothing, as of fork.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    libc::pid_t::try_from(child).expect("a process")
}

fn is_forked<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| error.to_string().contains("forked"))
}

fn has_no_ring(ring: &Ring) -> bool {
    ring.head() == 0 && ring.lock() == 0 && is_forked(ring.reader().map(drop)) && is_forked(ring.count())
}

pub(super) fn a_child_has_no_ring() {
    let ring = open(&faults());
    let touched = touch(5);
    assert!(ring.head() > 0);
    assert!(in_child(bare_clone, || {
        touch(10);
        has_no_ring(&ring) && is_forked(ring.disable())
    }));
    let mut reader = ring.reader().expect("readable");
    assert!(in_child(fork, || {
        touch(10);
        // A ring of its own works.
        let own = open(&faults());
        let touched = touch(5);
        has_no_ring(&ring)
            && reader.read().is_none()
            && is_forked(sample::wait(&[&ring], None).map(drop))
            && is_forked(ring.enable())
            && sampled(&own, &touched) == touched
    }));
    drop(reader);
    assert_eq!(sampled(&ring, &touched), touched, "the parent's samples alone");
}

pub(super) fn rings_come_and_go_while_others_fork() {
    let sampler = Sampler::new(Attr::new(Software::TaskClock)).content(Content::IP).pages(1);
    let work = move || {
        for _ in 0..200 {
            let rings: Vec<Ring> = (0..3).map(|_| open(&sampler)).collect();
            assert!(rings.iter().all(|ring| ring.lock() != 0 && ring.reader().is_ok()));
        }
    };
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(work.clone())).collect();
    let ring = open(&faults());
    for _ in 0..50 {
        assert!(in_child(fork, || has_no_ring(&ring) && open(&faults()).lock() != 0));
    }
    for thread in threads {
        thread.join().expect("does not panic");
    }
    assert!(ring.lock() != 0);
}
