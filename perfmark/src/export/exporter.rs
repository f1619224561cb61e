//! A small server of the metrics, for programs without an HTTP server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::prometheus::Metrics;
use crate::platform::descriptors::Kept;
#[cfg(unix)]
use crate::platform::descriptors::{AsRawFd as _, poll, readable};
use crate::platform::signals::background;
use crate::recording::start::{Process, this_process};

/// Serves [`Metrics`] at `http://127.0.0.1:PORT/metrics`, for programs without an HTTP server. Programs with one
/// register the metrics there.
///
/// It answers `GET` and `HEAD` with one thread, which ends when the [`Exporting`] that `start` returns is dropped. A
/// slow or silent client delays no other: 64 clients may send requests at a time and 8 receive answers; beyond that,
/// the oldest is dropped. A request has 8 KiB and 32 headers at most, and one second to arrive. Its answer has five
/// seconds. There is no TLS and no authentication, so it listens on this machine only, unless [set
/// otherwise](Self::address). Clients that accept `OpenMetrics`, as Prometheus does, receive it, and others the older
/// text format.
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
    /// The process that started the thread.
    process: Process,
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Serves all marks' metrics at that port of this machine; 0 selects a free port.
    pub fn new(port: u16) -> Self {
        Self { address: (Ipv4Addr::LOCALHOST, port).into(), metrics: Metrics::default() }
    }

    /// Serves at another address; `Ipv4Addr::UNSPECIFIED` accepts every machine that can reach this one.
    pub fn address(mut self, address: impl Into<IpAddr>) -> Self {
        self.address.set_ip(address.into());
        self
    }

    /// Serves these metrics.
    pub fn metrics(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// The address is in use, not permitted, or not one of this machine; or no thread can be created.
    pub fn start(self) -> io::Result<Exporting> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.metrics));
        begin(self.address, registry, LIMITS)
    }
}

/// Serves the metrics in the registry.
fn begin(address: SocketAddr, registry: Registry, limits: Limits) -> io::Result<Exporting> {
    let refused = |why: io::Error| io::Error::new(why.kind(), format!("listening on {address}: {why}"));
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let is_over = Arc::<AtomicBool>::default();
    let listener = Kept::new(listener);
    let mut server = Server { listener, registry, limits, is_over: Arc::clone(&is_over), clients: Vec::new() };
    let server = background::spawn("perfmark-export", move || server.serve())?;
    Ok(Exporting { process: this_process(), address, is_over, server: Some(server) })
}

impl Exporting {
    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        let server = self.server.take();
        // A forked child does not have the thread, and must not wait for it.
        if !self.process.is_this() {
            return std::mem::forget(server);
        }
        self.is_over.store(true, SeqCst);
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        // This wakes the server, which otherwise looks once a second.
        _ = TcpStream::connect_timeout(&address, LIMITS.request);
        _ = server.map(JoinHandle::join);
    }
}

/// The time limits of a client, and the limits on clients.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Time for the request.
    request: Duration,
    /// Time for receiving the answer.
    answer: Duration,
    /// The most clients that have not sent their request yet. Beyond that the oldest is dropped, so that silent clients
    /// keep no other out.
    asking: usize,
    /// The most clients whose answer is in memory.
    answered: usize,
}

const LIMITS: Limits =
    Limits { request: Duration::from_secs(1), answer: Duration::from_secs(5), asking: 64, answered: 8 };

/// The most bytes of a request.
const LARGEST: usize = 8192;

/// The state of the server's thread, which waits for all clients together.
struct Server {
    listener: Kept<TcpListener>,
    registry: Registry,
    limits: Limits,
    is_over: Arc<AtomicBool>,
    /// In the order in which they connected or were answered.
    clients: Vec<Client>,
}

struct Client {
    stream: Kept<TcpStream>,
    phase: Phase,
    /// The client is dropped at this time.
    until: Instant,
}

enum Phase {
    /// The client is sending its request; this is the part so far.
    Asking(Vec<u8>),
    Answered {
        bytes: Vec<u8>,
        sent: usize,
        /// Whether the client may still send data. If it were not read, TCP would reset the connection and discard the
        /// answer.
        drains: bool,
    },
    Draining,
}

impl Server {
    fn serve(&mut self) {
        /// Without descriptors accept(2) would fail again at once.
        const PAUSE: Duration = Duration::from_millis(100);
        let mut pauses = false;
        // It ends if the program closes the listener.
        while let Some(listener) = self.listener.get() {
            let next = self.clients.iter().map(|client| client.until).min();
            let at_most = next.map_or(RECHECK, |next| next.saturating_duration_since(Instant::now()).min(RECHECK));
            let (listener, at_most) = if pauses { (None, at_most.min(PAUSE)) } else { (Some(listener), at_most) };
            wait(listener, &self.clients, at_most);
            if self.is_over.load(SeqCst) {
                return;
            }
            pauses = !pauses && self.accept().is_err();
            self.go_on();
        }
    }

    /// Goes on with all clients. Those with an answer come first, so that no more answers than the limit and one are in
    /// memory.
    fn go_on(&mut self) {
        let now = Instant::now();
        let (answered, asking): (Vec<_>, Vec<_>) = self.clients.drain(..).partition(Client::is_answered);
        for mut client in answered.into_iter().chain(asking) {
            if client.until > now && client.go_on(&self.registry, self.limits).is_ok() {
                self.clients.push(client);
                self.drop_oldest();
            }
        }
    }

    /// Accepts waiting clients, a limited number at a time, so that others have their turn.
    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..self.limits.asking {
            match self.listener.get().ok_or(CLOSED)?.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    let (stream, until) = (Kept::new(stream), Instant::now() + self.limits.request);
                    self.clients.push(Client { stream, phase: Phase::Asking(Vec::new()), until });
                    self.drop_oldest();
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client left before it was accepted.
                Err(why) if [ErrorKind::Interrupted, ErrorKind::ConnectionAborted].contains(&why.kind()) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Drops the oldest clients above the limits.
    fn drop_oldest(&mut self) {
        for (limit, is_answered) in [(self.limits.asking, false), (self.limits.answered, true)] {
            let mut above = self.clients.iter().filter(|client| client.is_answered() == is_answered).count();
            above = above.saturating_sub(limit);
            self.clients.retain(|client| {
                let is_dropped = above > 0 && client.is_answered() == is_answered;
                above -= usize::from(is_dropped);
                !is_dropped
            });
        }
    }
}

impl Client {
    fn is_answered(&self) -> bool {
        matches!(self.phase, Phase::Answered { .. })
    }

    /// Does as much as possible without waiting.
    ///
    /// # Errors
    ///
    /// The client is done, or cannot be served.
    fn go_on(&mut self, registry: &Registry, limits: Limits) -> io::Result<()> {
        let result = self.try_to_go_on(registry, limits);
        match result {
            Err(why) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&why.kind()) => Ok(()),
            other => other,
        }
    }

    fn try_to_go_on(&mut self, registry: &Registry, limits: Limits) -> io::Result<()> {
        let mut stream = self.stream.get().ok_or(CLOSED)?;
        if let Phase::Asking(bytes) = &mut self.phase {
            let answer = match read_request(&mut stream, bytes) {
                Ok(request) => answer(&request, registry),
                Err(Refused::By(status)) => Answer::text(status, "malformed or too large request\n"),
                Err(Refused::Io(why)) => return Err(why),
            };
            let mut bytes = answer.head().into_bytes();
            if !answer.is_head {
                bytes.extend_from_slice(answer.body.as_bytes());
            }
            self.phase = Phase::Answered { bytes, sent: 0, drains: answer.status != OK };
            self.until = Instant::now() + limits.answer;
        }
        if let Phase::Answered { bytes, sent, drains } = &mut self.phase {
            while *sent < bytes.len() {
                match stream.write(&bytes[*sent..])? {
                    0 => return Err(ErrorKind::WriteZero.into()),
                    more => *sent += more,
                }
            }
            stream.shutdown(Shutdown::Write)?;
            if !*drains {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.phase = Phase::Draining;
            self.until = Instant::now() + limits.request;
        }
        // Reads at most the size of a request at a time, so that others have their turn.
        match stream.read(&mut [0; LARGEST])? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The program closed the descriptor.
const CLOSED: ErrorKind = ErrorKind::NotConnected;

/// How often the server looks whether the program closed its listener, of which poll(2) says nothing.
const RECHECK: Duration = Duration::from_secs(1);

/// Waits until a client can continue or a new one connects to the listener, but no longer than `at_most`.
#[cfg(unix)]
fn wait(listener: Option<&TcpListener>, clients: &[Client], at_most: Duration) {
    let listener = listener.map(|listener| readable(listener.as_raw_fd()));
    let clients = clients.iter().filter_map(|client| {
        let events = if client.is_answered() { libc::POLLOUT } else { libc::POLLIN };
        Some(libc::pollfd { events, ..readable(client.stream.get()?.as_raw_fd()) })
    });
    // How many are ready is not needed: each descriptor is tried afterwards, and none blocks.
    if poll(&mut listener.into_iter().chain(clients).collect::<Vec<_>>(), at_most) < 0 {
        // The process may have fewer descriptors than there are clients.
        std::thread::sleep(at_most.min(Duration::from_millis(10)));
    }
}

/// On other systems: sleeps for a moment.
#[cfg(not(unix))]
fn wait(_: Option<&TcpListener>, clients: &[Client], at_most: Duration) {
    const MOMENT: Duration = Duration::from_millis(10);
    std::thread::sleep(at_most.min(if clients.is_empty() { 10 * MOMENT } else { MOMENT }));
}

/// Why there is no valid request.
enum Refused {
    By(&'static str),
    Io(io::Error),
}

struct Request {
    method: String,
    path: String,
    accepts_openmetrics: bool,
}

/// The request, from the bytes that arrived before and now; `WouldBlock` if it is incomplete.
fn read_request(client: &mut impl Read, bytes: &mut Vec<u8>) -> Result<Request, Refused> {
    loop {
        let length = bytes.len();
        if length == LARGEST {
            return Err(Refused::By(TOO_LARGE));
        }
        let mut part = [0; LARGEST];
        match client.read(&mut part[length..]) {
            Ok(0) => return Err(Refused::Io(ErrorKind::UnexpectedEof.into())),
            Ok(more) => bytes.extend_from_slice(&part[length..length + more]),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(Refused::Io(why)),
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {
                let of = |text: Option<&str>| text.unwrap_or_default().to_owned();
                let accepts = |header: &httparse::Header<'_>| {
                    header.name.eq_ignore_ascii_case("Accept")
                        && header.value.to_ascii_lowercase().windows(MEDIA_TYPE.len()).any(|part| part == MEDIA_TYPE)
                };
                let accepts_openmetrics = request.headers.iter().any(accepts);
                return Ok(Request { method: of(request.method), path: of(request.path), accepts_openmetrics });
            }
            Ok(httparse::Status::Partial) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Refused::By(TOO_LARGE)),
            Err(_) => return Err(Refused::By(BAD)),
        }
    }
}

const MEDIA_TYPE: &[u8] = b"application/openmetrics-text";
const OK: &str = "200 OK";
const BAD: &str = "400 Bad Request";
const TOO_LARGE: &str = "431 Request Header Fields Too Large";

struct Answer {
    status: &'static str,
    content_type: &'static str,
    /// Another line of the head, or none.
    header: &'static str,
    body: String,
    /// Whether the body is left out (HEAD).
    is_head: bool,
}

impl Answer {
    fn text(status: &'static str, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", header: "", body: body.into(), is_head: false }
    }

    fn head(&self) -> String {
        let Self { status, content_type, header, body, .. } = self;
        let mut head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
        _ = write!(head, "{header}Connection: close\r\n\r\n");
        head
    }
}

fn answer(request: &Request, registry: &Registry) -> Answer {
    /// `OpenMetrics` 1.0, "Protocol Negotiation".
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    let Request { method, path, accepts_openmetrics } = request;
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        let refused = Answer::text("405 Method Not Allowed", "use GET to read metrics\n");
        return Answer { header: "Allow: GET, HEAD\r\n", ..refused };
    }
    // `http://host/metrics` is the same (RFC 9112, 3.2.2).
    let path = path.split_once("://").map_or(path.as_str(), |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    if path.split('?').next() != Some("/metrics") {
        return Answer { is_head, ..Answer::text("404 Not Found", "metrics are at /metrics\n") };
    }
    let mut body = String::new();
    match encode(&mut body, registry) {
        Ok(()) if *accepts_openmetrics => Answer { status: OK, content_type: OPENMETRICS, header: "", body, is_head },
        Ok(()) => Answer { status: OK, content_type: TEXT, header: "", body: in_text_format(&body), is_head },
        Err(why) => Answer::text("500 Internal Server Error", &format!("{why}\n")),
    }
}

/// The metrics in Prometheus's text format, in which the name of a family of counters ends in `_total`, too.
fn in_text_format(openmetrics: &str) -> String {
    let of_counter = |line| str::strip_prefix(line, "# TYPE ")?.strip_suffix(" counter");
    let counters: BTreeSet<&str> = openmetrics.lines().filter_map(of_counter).collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
        let counter = line.strip_prefix("# ").and_then(|comment| comment.split(' ').nth(1));
        match counter.filter(|name| counters.contains(name)) {
            Some(name) => text.push_str(&line.replacen(name, &format!("{name}_total"), 1)),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::atomic::AtomicUsize;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
    use prometheus_client::metrics::counter::ConstCounter;

    use super::*;

    /// More than a connection buffers if nobody reads.
    const BIG: usize = 32 << 20;
    /// After this time without data the test fails.
    const HANGS: Duration = Duration::from_secs(60);

    /// A metric that is too large for the first client to receive.
    #[derive(Debug, Default)]
    struct BigAtFirst(AtomicBool);

    impl Collector for BigAtFirst {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let help = "a".repeat(if self.0.swap(true, SeqCst) { 1 } else { BIG });
            let metric = ConstCounter::new(7_u64);
            metric.encode(encoder.encode_descriptor("big", &help, None, metric.metric_type())?)
        }
    }

    /// A metric that is too large to send at once. Before the server encodes another answer beyond the limit, the
    /// collector waits until the oldest client has been dropped.
    #[derive(Debug)]
    struct BigAfterDrop {
        clients: Vec<TcpStream>,
        encoded: Arc<AtomicUsize>,
    }

    const KEPT: usize = 2;

    impl Collector for BigAfterDrop {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let oldest = self.encoded.fetch_add(1, SeqCst).checked_sub(KEPT + 1);
            if let Some(mut oldest) = oldest.map(|oldest| &self.clients[oldest]) {
                oldest.read_to_end(&mut Vec::new()).expect("an end");
            }
            BigAtFirst::default().encode(encoder)
        }
    }

    #[test]
    fn few_answers_are_in_memory_however_many_clients_ask_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("known");
        let clients: Vec<_> = (0..3 * KEPT).map(|_| client(address)).collect();
        let (count, encoded, mut registry) = (clients.len(), Arc::<AtomicUsize>::default(), Registry::default());
        registry.register_collector(Box::new(BigAfterDrop { clients, encoded: Arc::clone(&encoded) }));
        let limits = Limits { request: HOUR, answer: HOUR, answered: KEPT, ..LIMITS };
        let listener = Kept::new(listener);
        let mut server = Server { listener, registry, limits, is_over: Arc::default(), clients: Vec::new() };
        while encoded.load(SeqCst) < count {
            server.accept().expect("clients");
            server.go_on();
        }
        assert_eq!(server.clients.len(), KEPT);
    }

    /// A client that requests the metrics.
    fn client(address: SocketAddr) -> TcpStream {
        let mut client = TcpStream::connect(address).expect("somebody listens");
        client.set_read_timeout(Some(HANGS)).expect("a limit");
        client.write_all(b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n").expect("taken");
        client
    }

    #[test]
    fn a_client_that_takes_no_answer_is_dropped_and_the_next_served() {
        let mut registry = Registry::default();
        registry.register_collector(Box::<BigAtFirst>::default());
        // The answer must be received at once.
        let limits = Limits { answer: Duration::ZERO, ..LIMITS };
        let exporting = begin((Ipv4Addr::LOCALHOST, 0).into(), registry, limits).expect("a port");
        let mut first = client(exporting.address());
        let mut part = vec![0];
        first.read_exact(&mut part).expect("the answer begins");
        let mut answer = String::new();
        client(exporting.address()).read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains("\r\n\r\n") && answer.ends_with("big_total 7\n# EOF\n"), "{answer}");
        // The part that was sent before the client was dropped.
        first.read_to_end(&mut part).expect("an end");
        assert!(part.starts_with(b"HTTP/1.1 200 OK\r\n") && part.len() < BIG, "{} bytes", part.len());
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// Clients that send nothing, and clients that send half a request.
    fn idle(address: SocketAddr, count: usize) -> Vec<TcpStream> {
        let connect = |number: usize| {
            let mut client = TcpStream::connect(address).expect("somebody listens");
            client
                .write_all(if number.is_multiple_of(2) { b"" } else { b"GET /metrics HTTP/1.1\r\nHost:" })
                .expect("taken");
            client
        };
        (0..count).map(connect).collect()
    }

    fn is_open(mut client: &TcpStream) -> bool {
        client.set_nonblocking(true).expect("set");
        client.read(&mut [0]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
    }

    fn scrape(address: SocketAddr) {
        let mut answer = String::new();
        client(address).read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("# EOF\n"), "{answer}");
    }

    #[test]
    fn silent_clients_delay_no_scrape_and_beyond_the_limit_the_oldest_are_dropped() {
        let limits = Limits { request: HOUR, answer: HOUR, ..LIMITS };
        let mut registry = Registry::default();
        registry.register_collector(Box::<BigAtFirst>::default());
        let exporting = begin((Ipv4Addr::LOCALHOST, 0).into(), registry, limits).expect("a port");
        // This client does not read its answer.
        let first = client(exporting.address());
        let mut idle = idle(exporting.address(), 300);
        scrape(exporting.address());
        assert!(idle[240..].iter().all(is_open), "the newest stay");
        assert!(!is_open(&idle[0]) && !is_open(&idle[200]), "the oldest do not");
        for _ in 0..LIMITS.answered {
            idle.push(client(exporting.address()));
        }
        drop((first, idle));
        scrape(exporting.address());
    }

    #[test]
    fn single_bytes_do_not_extend_a_clients_time() {
        // The client is in the listener's queue; there is no server.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut sends = TcpStream::connect(listener.local_addr().expect("known")).expect("somebody listens");
        let (stream, _) = listener.accept().expect("there");
        let until = Instant::now() + HANGS;
        let mut client = Client { stream: Kept::new(stream), phase: Phase::Asking(Vec::new()), until };
        // It blocks until the byte arrives; the request then continues.
        client.stream.get().expect("open").set_read_timeout(Some(Duration::from_millis(1))).expect("a limit");
        sends.write_all(b"G").expect("taken");
        let has = |client: &Client| matches!(&client.phase, Phase::Asking(bytes) if bytes == b"G");
        while !has(&client) {
            client.go_on(&Registry::default(), LIMITS).expect("it waits for more");
        }
        assert_eq!(client.until, until);
    }
}
