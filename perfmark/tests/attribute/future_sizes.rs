//! A marked future is at most 64 bytes larger than an unmarked one, for each level of marked functions.

#![allow(
    clippy::unused_async,
    clippy::manual_async_fn,
    clippy::large_types_passed_by_value,
    reason = "the test measures these functions"
)]

use std::fmt::Display;
use std::future::ready;
use std::pin::Pin;

use perfmark::{perfmark, region};

/// The number of bytes that a level may add.
const LEVEL: usize = 64;

twins! {
    use {Display, Pin, ready};

    pub(super) async fn nothing() {}

    pub(super) async fn waits() {
        ready(()).await;
    }

    pub(super) async fn kilobyte(bytes: [u8; 1024]) -> u8 {
        ready(()).await;
        bytes[0]
    }

    pub(super) async fn unused_kilobyte(_: [u8; 1024], _unused: [u8; 1024]) {
        ready(()).await;
    }

    pub(super) async fn mutable_kilobytes(mut bytes: [u8; 1024], (first, mut second): ([u8; 1024], [u8; 1024])) -> u8 {
        bytes[0] = first[0];
        ready(()).await;
        second[0] = bytes[0];
        second[0]
    }

    pub(super) async fn two_levels(bytes: [u8; 1024]) -> u8 {
        kilobyte(bytes).await
    }

    pub(super) async fn three_levels(bytes: [u8; 1024]) -> u8 {
        two_levels(bytes).await
    }

    pub(super) async fn references(one: &str, other: &mut [u64]) -> usize {
        ready(()).await;
        other[0] += 1;
        one.len()
    }

    pub(super) async fn generic<T: Display, const N: usize>(items: [T; N], more: impl Display) -> String {
        ready(()).await;
        format!("{} {more}", items[0])
    }

    pub(super) async fn result(text: String) -> Result<[u64; 16], std::num::ParseIntError> {
        let number: u64 = text.parse()?;
        ready(()).await;
        Ok([number; 16])
    }

    pub(super) fn returned(bytes: [u8; 1024]) -> impl Future<Output = u8> {
        async move {
            ready(()).await;
            bytes[0]
        }
    }

    pub(super) async fn waits_for_box(bytes: [u8; 1024]) -> u8 {
        boxed(bytes).await
    }

    pub(super) fn boxed(bytes: [u8; 1024]) -> Pin<Box<dyn Future<Output = u8> + Send>> {
        Box::pin(async move {
            ready(()).await;
            bytes[0]
        })
    }

    pub(super) struct Buffer(pub(super) [u8; 1024]);

    impl Buffer {
        pub(super) async fn by_reference(&self) -> u8 {
            ready(()).await;
            self.0[0]
        }

        pub(super) async fn by_mutable(&mut self, by: u8) {
            ready(()).await;
            self.0[0] += by;
        }

        pub(super) async fn by_value(self) -> u8 {
            ready(()).await;
            self.0[0]
        }

        pub(super) async fn mutable_by_value(mut self) -> u8 {
            self.0[0] += 1;
            ready(()).await;
            self.0[0]
        }

        pub(super) async fn unused(self) {
            ready(()).await;
        }
    }
}

/// The names, the levels, and the sizes of the marked and the unmarked futures.
macro_rules! sizes {
    ($($name:ident($($argument:expr),*) $levels:literal)*) => {
        [$({
            let marked = { use marked::*; size_of_val(&$name($($argument),*)) };
            let plain = { use plain::*; size_of_val(&$name($($argument),*)) };
            (stringify!($name), $levels, marked, plain)
        }),*]
    };
}

/// Prints the sizes, and checks that none exceeds its limit.
#[track_caller]
fn assert_small(sizes: &[(&str, usize, usize, usize)]) {
    for &(name, levels, marked, plain) in sizes {
        println!("{name}: {marked} bytes, {plain} unmarked, of {levels} levels");
    }
    for &(name, levels, marked, plain) in sizes {
        assert!(marked <= plain + levels * LEVEL, "{name}");
    }
}

const KILOBYTE: [u8; 1024] = [1; 1024];

#[test]
fn each_level_of_marked_futures_adds_64_bytes_at_most() {
    let sizes = sizes! {
        nothing() 1
        waits() 1
        kilobyte(KILOBYTE) 1
        unused_kilobyte(KILOBYTE, KILOBYTE) 1
        mutable_kilobytes(KILOBYTE, (KILOBYTE, KILOBYTE)) 1
        references("", &mut [1]) 1
        generic([""; 40], 1) 1
        result(String::new()) 1
        returned(KILOBYTE) 1
        waits_for_box(KILOBYTE) 1
        two_levels(KILOBYTE) 2
        three_levels(KILOBYTE) 3
    };
    assert_small(&sizes);
}

#[test]
fn marked_methods_add_64_bytes_at_most() {
    macro_rules! methods {
        ($of:ident) => {{
            let new = || $of::Buffer(KILOBYTE);
            let (buffer, mut mutable) = (new(), new());
            [
                size_of_val(&buffer.by_reference()),
                size_of_val(&mutable.by_mutable(1)),
                size_of_val(&new().by_value()),
                size_of_val(&new().mutable_by_value()),
                size_of_val(&new().unused()),
            ]
        }};
    }
    let names = ["&self", "&mut self", "self", "mut self", "self, unused"];
    let sizes = names.into_iter().zip(methods!(marked)).zip(methods!(plain));
    assert_small(&sizes.map(|((name, marked), plain)| (name, 1, marked, plain)).collect::<Vec<_>>());
}

#[test]
fn a_boxed_marked_future_adds_64_bytes_at_most() {
    let sizes = (size_of_val(&*marked::boxed(KILOBYTE)), size_of_val(&*plain::boxed(KILOBYTE)));
    assert_small(&[("Box::pin(…)", 1, sizes.0, sizes.1)]);
}

#[test]
fn a_region_adds_64_bytes_at_most() {
    let bytes = KILOBYTE;
    let plain = async move {
        ready(()).await;
        bytes[0]
    };
    let region = region!("region", time, async move {
        ready(()).await;
        bytes[0]
    });
    assert_small(&[("region", 1, size_of_val(&region), size_of_val(&plain))]);
}
