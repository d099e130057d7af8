//! Files from a server, which each test makes for itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener};
use tokio_util::sync::CancellationToken;
use zester_host::real::Real;
use zester_host::{Download, Fault, FaultKind, HostRead};

/// Answers every request by its path, until the test ends.
fn serve(answer: fn(&str, &mut dyn Write)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap().unwrap();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                answer(request.split(' ').nth(1).unwrap(), &mut stream);
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
    format!("http://{address}")
}

fn whole(out: &mut dyn Write, status: &str, headers: &str, body: &[u8]) {
    let length = body.len();
    write!(out, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n")
        .unwrap();
    out.write_all(body).unwrap();
}

fn answer(path: &str, out: &mut dyn Write) {
    match path {
        "/file" => whole(out, "200 OK", "", b"content"),
        "/moved" => whole(out, "302 Found", "location: /file\r\n", b""),
        "/round" => whole(out, "302 Found", "location: /round\r\n", b""),
        "/private" => whole(out, "403 Forbidden", "", b""),
        "/broken" => whole(out, "500 Internal Server Error", "", b""),
        // Without a length: what ends it is the end of the connection.
        "/endless" => {
            write!(out, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").unwrap();
            while out.write_all(&[b'x'; 4096]).is_ok() {}
        }
        "/cut" => write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").unwrap(),
        "/silent" => std::thread::park(),
        _ => whole(out, "404 Not Found", "", b""),
    }
}

fn get(url: &str, bytes_max: u64) -> Result<Vec<u8>, Fault> {
    Real::new().download(&Download { url, bytes_max, cancel: &CancellationToken::new() })
}

#[test]
fn a_file_is_read_also_where_it_moved_to() {
    let server = serve(answer);
    for path in ["/file", "/moved"] {
        assert_eq!(get(&format!("{server}{path}"), 100).unwrap(), b"content");
    }
}

#[test]
fn what_cannot_be_read_is_a_fault_that_names_it() {
    let server = serve(answer);
    let kind = |path: &str| {
        let fault = get(&format!("{server}{path}"), 100).unwrap_err();
        assert!(fault.message.contains(path), "{fault}");
        fault.kind
    };
    assert_eq!(kind("/nothing"), FaultKind::NotFound);
    assert_eq!(kind("/private"), FaultKind::Denied);
    for path in ["/broken", "/round", "/cut"] {
        assert_eq!(kind(path), FaultKind::Io, "{path}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(get(&format!("http://{nobody}/x"), 100).unwrap_err().kind, FaultKind::Io);
}

#[test]
fn more_than_the_limit_is_refused_announced_or_not() {
    let server = serve(answer);
    for path in ["/file", "/endless"] {
        let fault = get(&format!("{server}{path}"), 3).unwrap_err();
        assert!(fault.message.contains("more than the 3 bytes"), "{fault}");
    }
}

#[test]
fn a_cancel_ends_the_waiting_for_a_silent_server() {
    let server = serve(answer);
    let cancel = CancellationToken::new();
    let canceler = cancel.clone();
    let waiting = std::thread::spawn(move || {
        let url = format!("{server}/silent");
        Real::new().download(&Download { url: &url, bytes_max: 9, cancel: &cancel }).unwrap_err().kind
    });
    canceler.cancel();
    assert_eq!(waiting.join().unwrap(), FaultKind::Canceled);
}
