//! A door on a real socket: who gets an answer, and who is hung up on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use zester_door::limits::{
    CONNECTIONS_MAX, CONNECTIONS_OF_ADDRESS_MAX, REQUEST_BYTES_MAX, REQUESTS_OF_CONNECTION_MAX,
};
use zester_door::{Answers, Caller, Certificates, Door, DoorUrl, Kind, Pin, Reply};
use zester_rule::rule;

/// Says what it heard, and how often it was asked.
#[derive(Default)]
struct Echo {
    asked: AtomicUsize,
    /// From this connection on nobody is admitted.
    admits: Option<usize>,
    came: AtomicUsize,
}

impl Answers for Echo {
    fn admit(&self, _: IpAddr) -> Result<(), Duration> {
        let number = self.came.fetch_add(1, Ordering::SeqCst);
        match self.admits.is_some_and(|admits| number >= admits) {
            true => Err(Duration::from_secs(1)),
            false => Ok(()),
        }
    }

    fn answer<'a>(&'a self, path: &'a str, body: Bytes, _: IpAddr) -> BoxFuture<'a, Reply> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match path {
                "/echo" => Reply::Message(body.to_vec()),
                "/bad" => Reply::Malformed("that is none".into()),
                _ => Reply::NoSuchPath,
            }
        })
    }
}

struct Fleet {
    ca: String,
    certificate: String,
    key: String,
}

/// A CA and what it signed for a name.
fn fleet(host: &str) -> Fleet {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec![host.to_string()]).unwrap().signed_by(&key, &issuer).unwrap();
    Fleet { ca, certificate: signed.pem(), key: key.serialize_pem() }
}

impl Fleet {
    async fn open(&self, echo: Arc<Echo>) -> (SocketAddr, CancellationToken) {
        let certificates = Certificates { certificate: &self.certificate, key: &self.key, ca: &self.ca };
        let door = Door::bind("127.0.0.1:0".parse().unwrap(), &certificates).await.unwrap();
        let (address, stop) = (door.address(), CancellationToken::new());
        tokio::spawn(door.open(echo, stop.clone()));
        (address, stop)
    }

    fn pin(&self) -> Pin {
        Pin::of_pem(&self.ca).unwrap()
    }
}

fn url(address: SocketAddr) -> DoorUrl {
    format!("https://localhost:{}", address.port()).parse().unwrap()
}

#[tokio::test]
#[rule("I-4")]
async fn i4_who_has_the_pin_of_the_ca_talks_to_the_door_and_to_nobody_else() {
    let ours = fleet("localhost");
    let (address, _stop) = ours.open(Arc::default()).await;
    let mut caller = Caller::connect(&url(address), ours.pin()).await.unwrap();
    assert_eq!(caller.post("/echo", b"hello".to_vec()).await.unwrap(), "hello");
    assert_eq!(caller.post("/echo", b"again".to_vec()).await.unwrap(), "again", "on one connection");
    let refused = caller.post("/other", Vec::new()).await.unwrap_err();
    assert!(refused.to_string().contains("404"), "{refused}");
    let refused = caller.post("/bad", Vec::new()).await.unwrap_err();
    assert!(refused.to_string().contains("400: that is none"), "{refused}");
    // Somebody in between has a CA of its own.
    let echo = Arc::new(Echo::default());
    let other = fleet("localhost");
    let (theirs, _stop) = other.open(echo.clone()).await;
    let error = Caller::connect(&url(theirs), ours.pin()).await.err().unwrap();
    assert_eq!(error.kind, Kind::NotTheDoor);
    assert!(error.to_string().contains("nothing was sent"), "{error}");
    // Or shows ours along with a certificate that it did not sign.
    let mixed = Fleet { ca: ours.ca.clone(), ..fleet("localhost") };
    let (theirs, _stop) = mixed.open(echo.clone()).await;
    assert_eq!(Caller::connect(&url(theirs), ours.pin()).await.err().unwrap().kind, Kind::NotTheDoor);
    assert_eq!(echo.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[rule("I-4")]
async fn i4_who_asks_again_on_one_connection_waits_until_it_has_room() {
    let ours = fleet("localhost");
    let (address, _stop) = ours.open(Arc::default()).await;
    // The answer may be there before the connection has put the exchange behind it: whoever asks then is not turned away.
    for _ in 0..CONNECTIONS_MAX {
        let mut caller = Caller::connect(&url(address), ours.pin()).await.unwrap();
        for number in 0..REQUESTS_OF_CONNECTION_MAX {
            let said = number.to_string();
            assert_eq!(caller.post("/echo", said.clone().into_bytes()).await.unwrap(), said);
        }
    }
}

#[tokio::test]
#[rule("I-4")]
async fn i4_a_certificate_for_another_name_is_not_the_door() {
    let ours = fleet("somewhere.example");
    let (address, _stop) = ours.open(Arc::default()).await;
    let error = Caller::connect(&url(address), ours.pin()).await.err().unwrap();
    assert_eq!(error.kind, Kind::NotTheDoor);
    assert!(error.to_string().contains("not good for that name"), "{error}");
    let closed: DoorUrl = "https://localhost:1".parse().unwrap();
    assert_eq!(Caller::connect(&closed, ours.pin()).await.err().unwrap().kind, Kind::Away);
}

#[tokio::test]
#[rule("I-13")]
async fn i13_what_is_too_large_is_refused_and_the_door_stands() {
    let ours = fleet("localhost");
    let echo = Arc::new(Echo::default());
    let (address, _stop) = ours.open(echo.clone()).await;
    let mut caller = Caller::connect(&url(address), ours.pin()).await.unwrap();
    let error = caller.post("/echo", vec![7; REQUEST_BYTES_MAX + 1]).await.unwrap_err();
    assert!(error.to_string().contains("413") || error.kind == Kind::Away, "{error}");
    assert_eq!(echo.asked.load(Ordering::SeqCst), 0);
    let mut caller = Caller::connect(&url(address), ours.pin()).await.unwrap();
    assert_eq!(caller.post("/echo", vec![7; REQUEST_BYTES_MAX]).await.unwrap().len(), REQUEST_BYTES_MAX);
}

#[tokio::test]
#[rule("I-13")]
async fn i13_who_is_slow_is_hung_up_on_and_holds_up_nobody() {
    let ours = fleet("localhost");
    let (address, _stop) = ours.open(Arc::default()).await;
    // As many as one address may have, and more, that say nothing.
    let mut silent = Vec::new();
    for _ in 0..2 * CONNECTIONS_OF_ADDRESS_MAX {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // One too many is closed at once: it did not say a word, and neither does the door.
    let mut last = silent.pop().unwrap();
    let mut byte = [0];
    assert!(matches!(last.read(&mut byte).await, Ok(0) | Err(_)));
    // The others when their time is over; then there is room again.
    for mut stream in silent {
        let ended = tokio::time::timeout(Duration::from_secs(40), stream.read(&mut byte)).await;
        assert!(matches!(ended.unwrap(), Ok(0) | Err(_)));
    }
    let mut caller = Caller::connect(&url(address), ours.pin()).await.unwrap();
    assert_eq!(caller.post("/echo", b"x".to_vec()).await.unwrap(), "x");
    const { assert!(CONNECTIONS_OF_ADDRESS_MAX * 2 < CONNECTIONS_MAX) };
}

#[tokio::test]
#[rule("I-4", "I-13")]
async fn i13_who_comes_too_often_is_hung_up_on_before_anything_is_spent() {
    let ours = fleet("localhost");
    let echo = Arc::new(Echo { admits: Some(3), ..Echo::default() });
    let (address, _stop) = ours.open(echo.clone()).await;
    for number in 0..6 {
        let reached = Caller::connect(&url(address), ours.pin()).await;
        assert_eq!(reached.is_ok(), number < 3, "{number}");
    }
    assert_eq!(echo.came.load(Ordering::SeqCst), 6);
}

#[tokio::test]
#[rule("I-4")]
async fn i4_nothing_older_than_tls_1_3_is_spoken() {
    let ours = fleet("localhost");
    let (address, _stop) = ours.open(Arc::default()).await;
    // Plain HTTP.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    let mut heard = Vec::new();
    let _reset = stream.read_to_end(&mut heard).await;
    assert!(!String::from_utf8_lossy(&heard).contains("HTTP"), "{heard:?}");
    // TLS 1.2.
    let mut roots = rustls::RootCertStore::empty();
    use rustls::pki_types::pem::PemObject;
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(ours.ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    assert!(tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_err());
}
