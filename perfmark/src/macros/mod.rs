//! The attribute and the macros that users write, and what they expand to.

pub mod private;

/// Measures each call of a function or method, or of all functions in an `impl`, a `trait` or an inline `mod`.
///
/// Functions may be generic, `unsafe`, `extern`, in a trait or an `impl`, and have any signature.
///
/// ```
/// use perfmark::perfmark;
///
/// /// The default events: time, cycles, instructions. The report says which of them this machine cannot count.
/// #[perfmark]
/// fn parse(text: &str) -> Option<u64> {
///     text.trim().parse().ok()
/// }
///
/// struct Table(Vec<u64>);
///
/// impl Table {
///     /// Only these events, under this name. If none is available, it records time.
///     #[perfmark(branch_misses, page_faults, name = "table lookup")]
///     fn find(&self, key: u64) -> Option<usize> {
///         self.0.iter().position(|&entry| entry == key)
///     }
/// }
///
/// assert_eq!(parse(" 7 ").and_then(|key| Table(vec![5, 7]).find(key)), Some(1));
/// ```
///
/// An event is `time`, its parts on and off the CPU (`on_cpu`, and `off_cpu` or `blocked` and `preempted`; see the
/// chapter [`waiting`](crate::guide::waiting)), `suspended` (the time between polls), `allocations` or
/// `allocated_bytes` (with a [`CountingAllocator`](crate::CountingAllocator)), one of perf's generic names with
/// underscores for hyphens (`cache_misses`), or a raw event (`r01c2`). In quotes, an event has perf's complete grammar
/// (`"cpu/event=0xc2,umask=1/"`, `"mem:0x1000/8:w"`, `"cycles:k"`): see [`perfmark_rdpmc::Event`]. The compiler checks
/// the grammar; the report says which events the machine has.
///
/// Without quotes, the compiler accepts only the generic names. In quotes, it also accepts a name that a PMU may list
/// (`"l1d_cache_refill"`), which is any name that is not a near miss of a generic one. An event with its PMU
/// (`"armv8_pmuv3/l1d_cache_refill/"`) may have any name. Topdown metrics cannot be recorded: the kernel counts them
/// only in a group, and marks open each hardware event by itself.
///
/// A call of a mark costs about 90 instructions with `time` alone, 140 with two events that hardware counts, and about
/// 35 more for each further event. With more than four events, `time` included, it costs about 2,000 (see the chapter
/// [`events`](crate::guide::events#what-they-cost)). Software events (such as `page_faults`) and tracepoints cost an
/// `fcntl(2)` and a `read(2)` at entry and at exit, whatever their number.
///
/// # The marked body
///
/// The body becomes a block of the same function and not a closure, so `return`, `?` and labels keep their meaning. Its
/// value is stored in a variable until the call has ended. A large value that the body builds in a variable of its own
/// is copied for that.
///
/// Clippy reports in a marked function what it reports without the attribute, except these lints in functions that are
/// not async: `missing_const_for_fn`; `needless_lifetimes` of a lifetime in the result's type; and, of a body's last
/// expression, `manual_async_fn`, `needless_borrow`, `needless_return`, `use_self` and
/// `clippy::unconditional_recursion`. The compiler's lint `unconditional_recursion` reports marked functions.
///
/// # Options
///
/// - `name = "…"`: the report shows this name. It costs nothing.
/// - `kernel`: also counts the kernel's part of each event, where the machine allows it. It costs nothing.
/// - `generic`: each set of a generic function's types has its own row, and so has each implementor of a trait's
///   default method. Types of one name, such as two closures of a function, have a row each, with a number. Each call
///   costs 27 instructions more, and 19 on x86-64, for up to some hundred types. On a function that is not generic, it
///   has no effect but this cost.
/// - `crate = path`: the path of this crate, if it is renamed or re-exported by another. It costs nothing.
/// - `every = N`: measures one call in `N`, in bursts at random times, and counts all calls. A call that is not
///   measured costs about 34 instructions instead of 140 (with two events), and 20 on x86-64. Calls of other marks on
///   that thread cost about 130 instructions more each (270 instead of 140, with two events). All calls of async
///   functions and of other calls that are futures are measured. On one of these, `every` is an error; that of an
///   `impl`, `trait` or `mod`, of [`defaults!`] or of a filter has no effect on them.
/// - `fence`: lets the processor finish the instructions before each reading (`lfence`, `isb`). A call's values then
///   contain all of its own instructions and none of its neighbours'. A `time` mark with `fence` costs as much as 2.7
///   pairs of tick reads, instead of 1.4 (`benches/records/call.md`, on one machine). A [`Filter`](crate::Filter)
///   can set it, too.
///
/// `every` is for functions that are so short, and called so often, that even the probe overhead is too much. A thread
/// measures its calls in bursts: at first of one call, later of up to 4,096. A measured call counts as `N`. Totals, and
/// self of the calls around it, are then estimates, and flagged. All marks of a thread that have `every` share its
/// bursts, so calls inside one another are measured together. Do not use it on recursive functions: a skipped call is
/// not visible to the calls inside it, so totals count these again.
///
/// `fence` is for regions of a few hundred cycles. A processor that executes out of order does parts of such a region
/// before or after the readings. The fence also keeps the marked function from overlapping with its neighbours, which
/// makes it slower. That cost is not probe overhead, and perfmark does not subtract it.
///
/// ```
/// use perfmark::perfmark;
///
/// #[perfmark(time, every = 61)]
/// fn hash(key: u64) -> u64 {
///     key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
/// }
///
/// let hashes: u64 = (0..610).map(hash).fold(0, u64::wrapping_add);
/// # assert_ne!(hashes, 0);
/// # #[cfg(feature = "record")]
/// # {
/// let snapshot = perfmark::snapshot();
/// let hash = snapshot.marks.iter().find(|mark| mark.name == "hash").expect("it was called");
/// assert_eq!((hash.calls, hash.event("time").map(|time| time.measured)), (610, Some(10)));
/// # }
/// ```
///
/// # All functions in an `impl`, a `trait` or a `mod`
///
/// Each function gets the attribute, also in nested `impl`s and modules. Functions that cannot be marked are left out.
/// A function's own attribute takes precedence, also in a `cfg_attr`, and `#[perfmark(skip)]` leaves a function out.
/// The attributes inside need no import. They are recognized by the name `perfmark`, with or without a path. After
/// `use perfmark::perfmark as other`, a function with `#[other]` is marked twice, and `#[other(skip)]` has no effect.
///
/// ```
/// use perfmark::perfmark;
///
/// struct Cache(Vec<(u64, u64)>);
///
/// #[perfmark(instructions, cache_misses)]
/// impl Cache {
///     const fn new() -> Self {
///         Self(Vec::new())
///     }
///
///     fn find(&self, key: u64) -> Option<u64> {
///         self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
///     }
///
///     #[perfmark(skip)]
///     fn insert(&mut self, key: u64, value: u64) {
///         self.0.push((key, value));
///     }
/// }
///
/// let mut cache = Cache::new();
/// cache.insert(1, 2);
/// assert_eq!((cache.find(1), cache.find(2)), (Some(2), None));
/// ```
///
/// # Async functions
///
/// A call of an `async fn`, or of a function whose last expression is an async block or `Box::pin(async …)`, is the sum
/// of its polls, on whichever threads they run. Nothing is counted between polls. The report shows the number of
/// [polls](crate::Mark::polls). A future that is dropped before it is ready is a [cancelled](crate::Mark::cancelled)
/// call, in no distribution. A future that was never polled is not a call. A call of one poll costs about 200
/// instructions with two events. A marked future is up to 64 bytes larger.
///
/// ```
/// use perfmark::perfmark;
///
/// #[perfmark(time, instructions)]
/// async fn answer(question: String) -> usize {
///     std::future::ready(question.len()).await
/// }
///
/// # use std::pin::pin;
/// # use std::task::{Context, Poll, Waker};
/// let mut call = pin!(answer("why".into()));
/// assert_eq!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(3));
/// ```
///
/// The arguments are dropped in the last poll, so the call includes that. In a function that ends in an async block,
/// the code before the block is not part of the call. `.boxed()`, `.boxed_local()`, `.instrument(…)` and
/// `.in_current_span()` may follow the block. A call that returns earlier with another future is not counted. A
/// function that creates its future in another way is measured as an ordinary function that returns at once.
///
/// A closure that an async function returns as `impl Fn…` must declare the types of its arguments. `#[must_use]`
/// applies to the future only: the compiler does not warn if the result is unused. rustdoc and Clippy read the function
/// as written.
///
/// If another macro's attribute follows (`#[perfmark] #[tokio::main]`), the function keeps its signature, and its body
/// moves into an async block. Its arguments are then dropped in the order in which the body mentions them, and are in
/// the future twice if they live across an `.await`. If another attribute comes first, the mark sees the function that
/// this attribute creates. Under `#[async_trait]` or `#[tracing::instrument]` that is still a future. Under
/// `#[tokio::main]` and `#[tokio::test]` it is a function that blocks, whose call includes all its waiting. So put
/// `#[perfmark]` above these two.
///
/// # What cannot be marked
///
/// A `const fn` cannot be marked, because the compiler may evaluate it:
///
/// ```compile_fail
/// #[perfmark::perfmark]
/// const fn twice(n: u32) -> u32 {
///     2 * n
/// }
/// ```
///
/// A naked function cannot be marked either, because its body is assembly only. A marked `impl` or `mod` leaves out
/// `const` and naked functions. A method without a body and an item that is not a function cannot be marked. A second
/// attribute and unknown events and options are errors.
pub use perfmark_macros::perfmark;

/// Measures a block as a mark of its own, and returns the block's value.
///
/// ```
/// use perfmark::region;
///
/// fn digest(blocks: &[&[u8]]) -> u32 {
///     let sorted = region!("sort", time, {
///         let mut sorted = blocks.to_vec();
///         sorted.sort_unstable();
///         sorted
///     });
///     region!("fold", cycles, instructions, {
///         sorted.iter().flat_map(|block| block.iter()).fold(0, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte))
///     })
/// }
///
/// assert_ne!(digest(&[b"some", b"bytes"]), 0);
/// ```
///
/// The name is followed by the events and options that [`perfmark`](macro@perfmark) takes. `return`, `?` and `break`
/// leave the region as they leave the block.
///
/// Without a block it returns a guard. The region lasts until the guard is dropped, at the end of its scope at the
/// latest:
///
/// ```
/// # #[cfg(feature = "record")]
/// # {
/// let parsing = perfmark::region!("parsing", time);
/// let number: i32 = "42".parse().unwrap_or(0);
/// drop(parsing);
/// # assert_eq!(number, 42);
/// # }
/// ```
///
/// An async block becomes a future whose polls are measured like those of an async function:
///
/// ```
/// # use std::pin::pin;
/// # use std::task::{Context, Waker};
/// let reply = perfmark::region!("reply", time, async { std::future::ready(7).await });
/// # assert!(pin!(reply).poll(&mut Context::from_waker(Waker::noop())).is_ready());
/// ```
///
/// To measure a closure, put a region inside it:
///
/// ```
/// let twice = |n: u64| perfmark::region!("twice", time, { 2 * n });
/// assert_eq!(twice(21), 42);
/// ```
///
/// A region that is not an async block stays on one thread: the guard is not `Send`, and an `.await` in the block is
/// refused. The macro does not see an `.await` that another macro in the block expands to; whatever runs on the thread
/// meanwhile is then measured as part of the region.
///
/// ```compile_fail
/// async fn later() {
///     perfmark::region!("waits", time, { std::future::ready(()).await })
/// }
/// ```
pub use perfmark_macros::region;

/// Sets the events and options of a crate's marks that do not specify their own. Write it once in a crate, in any
/// module.
///
/// ```standalone_crate
/// perfmark::defaults!(cycles, instructions, every = 61);
///
/// /// Cycles and instructions, of one call in 61.
/// #[perfmark::perfmark]
/// fn hash(key: u64) -> u64 {
///     key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
/// }
///
/// /// The time of one call in 61.
/// #[perfmark::perfmark(time)]
/// fn parse(text: &str) -> Option<u64> {
///     text.trim().parse().ok()
/// }
/// # fn main() {
/// # assert_eq!(parse(" 7 ").map(|key| hash(key) != 7), Some(true));
/// # }
/// ```
///
/// It takes what [`perfmark`](macro@perfmark) takes, except `name` and `generic`. Instead of `every`, it takes `budget
/// = "2%"`: a [budget](crate::Budget) that the crate's marks share, unless the process has one. The events of
/// `PERFMARK_EVENTS` take precedence over its events. It applies to all marks whose module path begins with the name of
/// the same crate. A package's library and its program of the same name therefore share their defaults. If it is given
/// twice, perfmark uses the first in the source, and the report says so.
pub use perfmark_macros::defaults;
