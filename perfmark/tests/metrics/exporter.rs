//! What clients of the built-in server receive, whatever they send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use perfmark::{Exporter, Exporting};

use crate::child::{fork, in_child};
use crate::measured;

fn exporting() -> Exporting {
    Exporter::new(0).start().unwrap_or_else(|why| panic!("{why}"))
}

/// A client that has sent a request. Its reads fail if nothing ever arrives.
fn client(address: SocketAddr, request: &[u8]) -> TcpStream {
    const HANGS: Duration = Duration::from_secs(60);
    let mut client = TcpStream::connect(address).expect("somebody listens");
    client.set_read_timeout(Some(HANGS)).expect("a limit");
    client.write_all(request).expect("taken");
    client
}

/// Head and body of the answer. The client keeps its side open for writing.
fn ask(address: SocketAddr, request: &[u8]) -> (String, String) {
    let mut client = client(address, request);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer:?}"));
    (head.to_owned(), body.to_owned())
}

fn length(head: &str) -> usize {
    head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("present").parse().expect("a number")
}

#[test]
fn metrics_are_served_at_their_path_to_this_machine_only() {
    measured();
    let exporting = exporting();
    let address = exporting.address();
    assert!(address.ip().is_loopback() && address.port() != 0, "{address}");
    for path in ["/metrics", "/metrics?format=text", "http://localhost/metrics"] {
        let accept = "accept: application/OpenMetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n\r\n");
        let (head, body) = ask(address, request.as_bytes());
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
            "{head}"
        );
        assert_eq!(length(&head), body.len());
        assert!(
            body.contains("perfmark_calls_total{mark=\"metrics::measured\"}") && body.ends_with("# EOF\n"),
            "{body}"
        );
    }
    let (head, body) = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && length(&head) > 0 && body.is_empty(), "{head}\n{body}");
}

/// As curl does, whose output `promtool check metrics` reads.
#[test]
fn clients_that_do_not_ask_for_openmetrics_receive_the_text_format_with_a_help_text_for_each_series() {
    measured();
    let exporting = exporting();
    let (head, body) = ask(exporting.address(), b"GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert_eq!(length(&head), body.len());
    assert!(body.contains("\n# TYPE perfmark_calls_total counter\nperfmark_calls_total{"), "{body}");
    for series in body.lines().filter(|line| !line.starts_with('#')) {
        let name = series.split('{').next().expect("a name");
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let help = format!("# HELP {} ", of_histogram.unwrap_or(name));
        assert!(body.lines().any(|line| line.starts_with(&help)), "{help}in {body}");
    }
    assert!(!body.contains("# EOF") && !body.contains("# UNIT"), "{body}");
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match promtool.spawn() {
        Err(why) => println!("promtool: not run: {why}"),
        Ok(mut promtool) => {
            promtool.stdin.take().expect("a pipe").write_all(body.as_bytes()).expect("it reads all");
            let output = promtool.wait_with_output().expect("it ends");
            assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn a_request_that_is_not_a_scrape_is_refused_and_the_next_client_is_served() {
    let exporting = exporting();
    let address = exporting.address();
    let endless = format!("GET /metrics HTTP/1.1\r\nX: {}", "a".repeat(100_000));
    let headers = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(33));
    for (request, status) in [
        (b"GET / HTTP/1.1\r\n\r\n".as_slice(), "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "405 Method Not Allowed\r\n"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "400 Bad Request"),
        (b"GET /metrics HTTP/2.7\r\n\r\n", "400 Bad Request"),
        (endless.as_bytes(), "431 Request Header Fields Too Large"),
        (headers.as_bytes(), "431 Request Header Fields Too Large"),
    ] {
        let mut client = TcpStream::connect(address).expect("somebody listens");
        // The answer may come before the request is sent completely.
        _ = client.write_all(request);
        _ = client.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    // Clients that leave before they have asked.
    for part in ["", "GET /met"] {
        let mut client = TcpStream::connect(address).expect("somebody listens");
        client.write_all(part.as_bytes()).expect("taken");
    }
    let (head, _) = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
}

#[test]
fn a_client_that_stalls_is_dropped_and_the_next_one_is_served() {
    let requests =
        [("", ""), ("GET /metrics HTTP/1.1\r\nHost:", ""), ("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n")];
    // Each has a server of its own, since the server waits for each of them.
    thread::scope(|scope| {
        for (request, beginning) in requests {
            scope.spawn(move || {
                let exporting = exporting();
                let mut stays = client(exporting.address(), request.as_bytes());
                let mut answer = String::new();
                stays.read_to_string(&mut answer).expect("the server closes its end");
                assert!(answer.starts_with(beginning) && answer.is_empty() == beginning.is_empty(), "{answer}");
                let (head, _) = ask(exporting.address(), b"GET /metrics HTTP/1.1\r\n\r\n");
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
                drop(stays);
            });
        }
    });
}

#[test]
fn the_port_is_in_use_until_the_exporter_is_dropped() {
    // Other programs rarely use that address, so none gets the port when it is free again.
    let exporter = |port| Exporter::new(port).address([127, 0, 0, 2]).start();
    let first = exporter(0).expect("free");
    let address = first.address();
    let why = exporter(address.port()).expect_err("in use").to_string();
    assert!(why.starts_with(&format!("listening on {address}: ")), "{why}");
    // Also while a client is connected and silent.
    let silent = TcpStream::connect(address).expect("somebody listens");
    drop(first);
    drop(silent);
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
    TcpListener::bind(address).expect("free again");

    let everywhere = Exporter::new(0).address(std::net::Ipv4Addr::UNSPECIFIED).start().expect("free");
    assert!(everywhere.address().ip().is_unspecified());
    drop(everywhere);
}

#[test]
fn a_forked_child_serves_nothing_and_does_not_wait() {
    let mut exporting = Some(exporting());
    assert!(in_child(fork, || exporting.take().is_some()));
    let (head, _) = ask(exporting.expect("the parent's").address(), b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
}
