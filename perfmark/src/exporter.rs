//! A tiny server of the metrics, for programs that serve nothing themselves.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::background;
use crate::prometheus::Metrics;
use crate::start::{Process, this_process};

/// Serves [`Metrics`] at `http://127.0.0.1:PORT/metrics`, for programs that have no server of their own; those that have one register the metrics there.
///
/// It answers `GET` and `HEAD`, one client after the other, with one thread that ends with the [`Exporting`] that `start` gives. A request has 8 KiB and 32 headers at
/// most, and comes within a second; its answer is taken within five. It has no TLS and asks nobody who they are, so it listens on this machine alone unless [told otherwise](Self::address).
///
/// ```
/// # use std::io::{Read, Write};
/// # #[perfmark::perfmark(time)]
/// # fn work() {}
/// # work();
/// let exporting = perfmark::Exporter::new(0).start()?;
/// println!("metrics at http://{}/metrics", exporting.address());
/// # let mut client = std::net::TcpStream::connect(exporting.address())?;
/// # client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
/// # let mut answer = String::new();
/// # client.read_to_string(&mut answer)?;
/// # assert!(answer.contains("perfmark_calls_total{mark="), "{answer}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it does nothing before it is started"]
pub struct Exporter {
    address: SocketAddr,
    metrics: Metrics,
}

/// Serves as long as it lives. A forked child serves nothing, but keeps the port in use as long as it runs.
#[derive(Debug)]
#[must_use = "the port is closed when it is dropped"]
pub struct Exporting {
    /// Whose thread it is.
    process: Process,
    address: SocketAddr,
    state: Arc<State>,
    server: Option<JoinHandle<()>>,
}

/// What the server and who ends it share.
#[derive(Debug, Default)]
struct State {
    is_over: AtomicBool,
    /// Whom it serves now.
    client: Mutex<Option<TcpStream>>,
}

impl State {
    fn serves(&self, client: Option<TcpStream>) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

impl Exporter {
    /// All marks' metrics, at that port of this machine; 0 takes one that is free.
    pub fn new(port: u16) -> Self {
        Self { address: (Ipv4Addr::LOCALHOST, port).into(), metrics: Metrics::default() }
    }

    /// The same at another address: `Ipv4Addr::UNSPECIFIED` lets every machine ask that reaches this one.
    pub fn address(mut self, address: impl Into<IpAddr>) -> Self {
        self.address.set_ip(address.into());
        self
    }

    /// The same with these metrics.
    pub fn metrics(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Begins.
    ///
    /// # Errors
    ///
    /// The address is in use, may not be had, or is not this machine's; or there is no thread to be had.
    pub fn start(self) -> io::Result<Exporting> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.metrics));
        begin(self.address, registry, LIMITS)
    }
}

/// Serves what is in the registry.
fn begin(address: SocketAddr, registry: Registry, limits: Limits) -> io::Result<Exporting> {
    let refused = |why: io::Error| io::Error::new(why.kind(), format!("listening on {address}: {why}"));
    let listener = TcpListener::bind(address).map_err(refused)?;
    let address = listener.local_addr()?;
    let state = Arc::<State>::default();
    let shared = Arc::clone(&state);
    let server = background::spawn("perfmark-export", move || serve(&listener, &registry, &shared, limits))?;
    Ok(Exporting { process: this_process(), address, state, server: Some(server) })
}

impl Exporting {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        let server = self.server.take();
        // A forked child has not the thread, and must not wait for it.
        if !self.process.is_this() {
            return std::mem::forget(server);
        }
        self.state.is_over.store(true, SeqCst);
        if let Some(client) = &*self.state.client.lock().unwrap_or_else(PoisonError::into_inner) {
            _ = client.shutdown(Shutdown::Both);
        }
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        // Wakes it. Where that fails, it ends at the next client.
        if TcpStream::connect_timeout(&address, LIMITS.request).is_ok() {
            _ = server.map(JoinHandle::join);
        }
    }
}

/// What time a client has.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// For its request.
    request: Duration,
    /// For taking the answer.
    answer: Duration,
}

const LIMITS: Limits = Limits { request: Duration::from_secs(1), answer: Duration::from_secs(5) };

fn serve(listener: &TcpListener, registry: &Registry, state: &State, limits: Limits) {
    for client in listener.incoming() {
        state.serves(client.as_ref().ok().and_then(|client| client.try_clone().ok()));
        if state.is_over.load(SeqCst) {
            return;
        }
        match client {
            Ok(client) => _ = exchange(client, registry, limits),
            // Without descriptors it would fail again at once.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
        state.serves(None);
    }
}

/// One request and its answer.
fn exchange(client: TcpStream, registry: &Registry, limits: Limits) -> io::Result<()> {
    let mut client = Hurried { client, until: Instant::now() + limits.request };
    let mut bytes = [0; 8192];
    let answer = match read_request(&mut client, &mut bytes) {
        Ok((method, path)) => answer(&method, &path, registry),
        Err(Refused::By(status)) => Answer::told(status, "the request was not understood\n"),
        Err(Refused::Io(why)) => return Err(why),
    };
    client.until = Instant::now() + limits.answer;
    client.write_all(answer.head().as_bytes())?;
    if !answer.is_head {
        client.write_all(answer.body.as_bytes())?;
    }
    client.client.shutdown(Shutdown::Write)?;
    if answer.status != OK {
        // What is not read would take the answer back.
        client.until = Instant::now() + limits.request;
        while client.read(&mut bytes)? > 0 {}
    }
    Ok(())
}

/// A client with a time limit for everything together.
struct Hurried {
    client: TcpStream,
    until: Instant,
}

impl Hurried {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Hurried {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.client.set_read_timeout(self.left()?)?;
        self.client.read(bytes)
    }
}

impl Write for Hurried {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.set_write_timeout(self.left()?)?;
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why there is no request.
enum Refused {
    By(&'static str),
    Io(io::Error),
}

/// Method and path.
fn read_request(client: &mut impl Read, bytes: &mut [u8]) -> Result<(String, String), Refused> {
    let mut length = 0;
    loop {
        match client.read(&mut bytes[length..]) {
            Ok(0) if length == bytes.len() => return Err(Refused::By(TOO_LARGE)),
            Ok(0) => return Err(Refused::Io(ErrorKind::UnexpectedEof.into())),
            Ok(more) => length += more,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(Refused::Io(why)),
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes[..length]) {
            Ok(httparse::Status::Complete(_)) => {
                let of = |text: Option<&str>| text.unwrap_or_default().to_owned();
                return Ok((of(request.method), of(request.path)));
            }
            Ok(httparse::Status::Partial) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Refused::By(TOO_LARGE)),
            Err(_) => return Err(Refused::By(BAD)),
        }
    }
}

const OK: &str = "200 OK";
const BAD: &str = "400 Bad Request";
const TOO_LARGE: &str = "431 Request Header Fields Too Large";

struct Answer {
    status: &'static str,
    content_type: &'static str,
    /// Another line of the head, or none.
    header: &'static str,
    body: String,
    /// Whether the body is only told of.
    is_head: bool,
}

impl Answer {
    fn told(status: &'static str, what: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", header: "", body: what.into(), is_head: false }
    }

    fn head(&self) -> String {
        let Self { status, content_type, header, body, .. } = self;
        let mut head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
        _ = write!(head, "{header}Connection: close\r\n\r\n");
        head
    }
}

fn answer(method: &str, path: &str, registry: &Registry) -> Answer {
    /// `OpenMetrics` 1.0, "Protocol Negotiation".
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        let refused = Answer::told("405 Method Not Allowed", "metrics are read with GET\n");
        return Answer { header: "Allow: GET, HEAD\r\n", ..refused };
    }
    // `http://host/metrics` is the same (RFC 9112, 3.2.2).
    let path = path.split_once("://").map_or(path, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    if path.split('?').next() != Some("/metrics") {
        return Answer { is_head, ..Answer::told("404 Not Found", "metrics are at /metrics\n") };
    }
    let mut body = String::new();
    match encode(&mut body, registry) {
        Ok(()) => Answer { status: OK, content_type: OPENMETRICS, header: "", body, is_head },
        Err(why) => Answer::told("500 Internal Server Error", &format!("{why}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
    use prometheus_client::metrics::counter::ConstCounter;

    use super::*;

    /// More than a connection holds that nobody reads from.
    const BIG: usize = 32 << 20;
    /// After so long nothing comes any more, and the test fails.
    const HANGS: Duration = Duration::from_secs(60);

    /// For the first client more than it takes.
    #[derive(Debug, Default)]
    struct BigAtFirst(AtomicBool);

    impl Collector for BigAtFirst {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let help = "a".repeat(if self.0.swap(true, SeqCst) { 1 } else { BIG });
            let metric = ConstCounter::new(7_u64);
            metric.encode(encoder.encode_descriptor("big", &help, None, metric.metric_type())?)
        }
    }

    /// One that asks for the metrics.
    fn client(address: SocketAddr) -> TcpStream {
        let mut client = TcpStream::connect(address).expect("somebody listens");
        client.set_read_timeout(Some(HANGS)).expect("a limit");
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("taken");
        client
    }

    #[test]
    fn a_client_that_takes_no_answer_is_dropped_and_the_next_served() {
        let mut registry = Registry::default();
        registry.register_collector(Box::<BigAtFirst>::default());
        let limits = Limits { answer: Duration::from_secs(1), ..LIMITS };
        let exporting = begin((Ipv4Addr::LOCALHOST, 0).into(), registry, limits).expect("a port");
        let mut first = client(exporting.address());
        let mut answer = String::new();
        client(exporting.address()).read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains("\r\n\r\n") && answer.ends_with("big_total 7\n# EOF\n"), "{answer}");
        // What it was sent before it was dropped.
        let mut part = Vec::new();
        first.read_to_end(&mut part).expect("an end");
        assert!(part.starts_with(b"HTTP/1.1 200 OK\r\n") && part.len() < BIG, "{} bytes", part.len());
    }

    #[test]
    fn a_byte_now_and_then_gives_a_client_no_more_time() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let _sends = client(listener.local_addr().expect("known"));
        let (client, _) = listener.accept().expect("there");
        let mut client = Hurried { client, until: Instant::now() + HANGS };
        assert_eq!(client.read(&mut [0]).expect("in time"), 1);
        client.until = Instant::now();
        assert_eq!(client.read(&mut [0]).expect_err("too late").kind(), ErrorKind::TimedOut);
        assert_eq!(client.write(&[0]).expect_err("too late").kind(), ErrorKind::TimedOut);
    }
}
