//! Samples another process from tokio's event loop, which waits for the ring's descriptor. To run it: `cargo run
//! --release -p service --example ring`.

use std::error::Error;

/// Samples a process that computes. It is this program with the argument `compute`.
#[cfg(unix)]
async fn sample() -> Result<(), Box<dyn Error>> {
    use std::process::{Command, Stdio};

    use perfmark_rdpmc::sample::{Body, Content, Sampler};
    use perfmark_rdpmc::{Attr, Software, Target};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let mut child = Command::new(std::env::current_exe()?).arg("compute").stdin(Stdio::piped()).spawn()?;
    let clock = Sampler::new(Attr::new(Software::CpuClock)).frequency(999).content(Content::IP);
    // The kernel wakes the loop after ten samples.
    let ring = clock.target(Target::thread(child.id())).wakeup_events(10).open();
    // Lets the process begin.
    drop(child.stdin.take());
    // SAFETY: a ring returns the same descriptor until it is dropped, and keeps it open.
    #[expect(unsafe_code, reason = "tokio requires it of every descriptor")]
    let mut ring =
        unsafe { AsyncFd::register_with_interest(ring?, Interest::READABLE) }.map_err(|why| why.to_string())?;
    let (mut samples, mut wakeups, mut has_ended) = (0, 0, false);
    while !has_ended {
        let mut ready = ring.readable_mut().await?;
        // The process has ended. The ring still has its last samples.
        has_ended = ready.ready().is_read_closed();
        ready.clear_ready();
        let mut reader = ready.get_inner().reader()?;
        while let Some(record) = reader.read() {
            samples += u64::from(matches!(record.body, Body::Sample(_)));
        }
        wakeups += 1;
    }
    println!("{samples} samples of process {}, read in {wakeups} wakeups; {}", child.id(), child.wait()?);
    Ok(())
}

#[cfg(not(unix))]
async fn sample() -> Result<(), Box<dyn Error>> {
    Err("this system has no descriptors to wait for".into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if std::env::args().nth(1).is_some_and(|what| what == "compute") {
        // Until it is sampled.
        _ = std::io::stdin().read_line(&mut String::new());
        std::hint::black_box((0..300_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
        return;
    }
    if let Err(why) = sample().await {
        println!("no samples: {why}");
    }
}
