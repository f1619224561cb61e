//! A region is on one thread, and has a name.

use perfmark::region;

async fn waits() {
    region!("waits", time, {
        let ready = async { std::future::ready(1).await };
        ready.await;
    });
}

fn nameless() {
    region!(time, {});
    region!("", { 1 });
    region!("one", name = "two", { 1 });
}

fn main() {}
