//! A region stays on one thread, and has a name.

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
    region!();
    region!("no comma" time, { 1 });
    region!("no event", { 1 }, time);
    region!("wrong event", cycles/, { 1 });
    region!("left out", skip, { 1 });
    region!("one", name = "two", { 1 });
    let name = "variable";
    region!(name, time, { 1 });
    region!(concat!("a", "b"), { 1 });
    region!(format!("{name} 1"), cycles, { 1 });
    region!({ 1 });
    region!(b"bytes", { 1 });
}

/// The block is kept: what it uses counts as used, and its value has its type.
fn goes_on(text: &str) -> Option<u32> {
    let parsed = region!("goes on", every = 0, { text.parse::<u32>().ok()? });
    parsed.checked_add(1)
}

fn main() {
    _ = goes_on("1");
}
