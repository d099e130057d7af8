//! The three pages, over a real socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use zester_health::{Health, State, serve};
use zester_rule::rule;

async fn get(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
#[rule("D-11")]
async fn d11_pages_answer_and_anything_else_is_told_what_there_is() {
    let health = Arc::new(Health::new());
    let serving = serve("127.0.0.1:0".parse().unwrap(), health.clone()).await.unwrap();
    let (address, stop) = (serving.address, CancellationToken::new());
    let server = tokio::spawn(serving.run(stop.clone()));
    let ask = |path: &str| get_path(address, path.to_string());

    assert!(ask("/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(ask("/readyz").await.starts_with("HTTP/1.1 503"));
    health.set("bus", State::Up);
    assert!(ask("/readyz").await.starts_with("HTTP/1.1 200"));
    health.set("bus", State::Down("no connection".into()));
    let answer = ask("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("bus: down: no connection"), "{answer}");
    health.set("bus", State::Degraded("slow".into()));
    assert!(ask("/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(ask("/metrics").await.ends_with("# EOF\n"));
    assert!(ask("/nothing").await.starts_with("HTTP/1.1 404"));
    let post = get(address, "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");

    stop.cancel();
    server.await.unwrap();
}

async fn get_path(address: std::net::SocketAddr, path: String) -> String {
    get(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await
}
