//! Async functions. A call is the sum of its polls on any thread, without the time between them.
//!
//! `cargo run --release --example async --features tokio`

use std::time::Instant;

use perfmark::{perfmark, region};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Waits for much longer than it works.
#[perfmark(time, instructions)]
async fn handle(request: u64) -> u64 {
    let loaded = load(request).await;
    region!("digest", time, { (0..loaded % 1_000).fold(loaded, |sum, n| sum.rotate_left(5) ^ n) })
}

/// Behaves like a database request: yields, and is polled again.
#[perfmark(time)]
async fn load(request: u64) -> u64 {
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    request.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Never ready. Its caller gives up waiting, and the report counts the call as cancelled.
#[perfmark(time)]
async fn stalled() {
    std::future::pending::<()>().await;
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let start = Instant::now();
    let (requests, sum) = runtime.block_on(serve());
    println!("{requests} requests in {:?}, digest {sum:016x}", start.elapsed());
}

#[perfmark(time)]
async fn serve() -> (u64, u64) {
    const REQUESTS: u64 = 20_000;
    let (results, mut arrived) = mpsc::channel(64);
    let mut tasks = JoinSet::new();
    for request in 0..REQUESTS {
        let results = results.clone();
        tasks.spawn(async move {
            if request % 1_000 == 0 {
                tokio::select! {
                    () = stalled() => {}
                    () = tokio::task::yield_now() => {}
                }
            }
            _ = results.send(handle(request).await).await;
        });
    }
    drop(results);
    let mut sum = 0;
    while let Some(result) = arrived.recv().await {
        sum ^= result;
    }
    while tasks.join_next().await.is_some() {}
    (REQUESTS, sum)
}
