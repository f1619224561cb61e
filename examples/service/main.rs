//! A word search service that measures itself while it serves.
//!
//! ```text
//! cargo run --release -p service --example service -- --port 8080 perfmark/src
//! curl 'localhost:8080/search?q=signal+handler'                        # the documents that match best
//! curl 'localhost:8080/suggest?prefix=hist'                            # the most frequent words with this prefix
//! curl -T README.md localhost:8080/documents/README.md                 # adds a document, or replaces it
//! curl localhost:8080/metrics                                          # for Prometheus
//! curl localhost:8080/perfmark/report                                  # the table so far
//! curl -X POST 'localhost:8080/perfmark/sample?seconds=30'             # the hottest lines of the next 30 s
//! curl -X PUT -d 'service::index=every:16' localhost:8080/perfmark/filter
//! ```
//!
//! Its async handlers are marked, and so are the functions that they call. The example shows:
//!
//! - perfmark's metrics beside a service's own in one registry (`routes`);
//! - dumps at intervals and on SIGUSR1;
//! - filters that change what marks record while the service runs;
//! - samples on request, which cost nothing at other times;
//! - a report at the end, because SIGTERM and Ctrl-C end the service normally.

mod index;
mod options;
mod routes;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use perfmark::Dumps;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use options::{HELP, Options};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("service: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> io::Result<()> {
    let Some(options) = Options::parse(std::env::args_os().skip(1))? else {
        print!("{HELP}");
        return Ok(());
    };
    let _dumping = match options.dumps {
        Some(file) => {
            let dumps = Dumps::new(file).every(Duration::from_secs(60));
            Some(dumps.on_signal(SignalKind::user_defined1().as_raw_value()).start()?)
        }
        None => None,
    };
    let index = index::of_files(&options.paths)?;
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    println!("listening on http://{}", listener.local_addr()?);

    let (ending, end) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, routes::router(Arc::new(routes::Service::new(index))));
    let server = server.with_graceful_shutdown(async { _ = end.await });
    let server = tokio::spawn(server.into_future());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(ending);
    // Does not wait for clients that keep a connection open without a request.
    tokio::time::timeout(Duration::from_secs(5), server).await.map_or(Ok(()), |ended| ended?)
}
