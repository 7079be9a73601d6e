use std::io::{Read as _, Write as _};
use std::net::TcpStream as BlockingStream;

use super::*;

/// Serves `/metrics` with a fixed body on a free port of loopback while `ask` runs on another thread.
async fn with_server<T: Send + 'static>(ask: impl FnOnce(SocketAddr) -> T + Send + 'static) -> T {
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Routes::default().with("/metrics", || Page {
        content_type: "text/plain",
        body: Bytes::from_static(b"penstock_up 1\n"),
        security_policy: Some("default-src 'none'".to_owned()),
    });
    let names = Names::with_host(&["nas.example.org".to_owned()]);
    let server = tokio::spawn(listener.serve(routes, names));
    let answer = tokio::task::spawn_blocking(move || ask(address))
        .await
        .unwrap();
    server.abort();
    answer
}

/// Everything that comes back for these bytes, until the server closes.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = BlockingStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    rest(&mut stream)
}

fn rest(stream: &mut BlockingStream) -> String {
    let limit = Duration::from_secs(2 * limits::HTTP_SECONDS_MAX);
    stream.set_read_timeout(Some(limit)).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // A server that closes while bytes are unread resets the connection.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        read => drop(read.unwrap()),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: SocketAddr, path: &str, host: &str) -> String {
    exchange(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    )
}

#[tokio::test]
async fn fixed_paths_are_answered_and_nothing_else() {
    with_server(|address| {
        let answer = get(address, "/metrics", "localhost");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let head = head.to_lowercase();
        for line in [
            "content-type: text/plain",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "content-security-policy: default-src 'none'",
            "content-length: 14",
            "connection: close",
        ] {
            assert!(head.contains(line), "{line} in {head}");
        }
        assert_eq!(body, "penstock_up 1\n");
        assert!(get(address, "/metrics?all=1", "127.0.0.1:1").ends_with("penstock_up 1\n"));
        for path in ["/", "/metrics/", "/../metrics", "/etc/passwd"] {
            let answer = get(address, path, "localhost");
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        }
        let head = exchange(address, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(
            head.contains("200 OK") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let request = format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let answer = exchange(address, &request);
            assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_that_is_not_this_servers_is_refused() {
    let own = rustix::system::uname()
        .nodename()
        .to_str()
        .unwrap()
        .to_owned();
    with_server(move |address| {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            "127.0.0.1:9",
            "192.0.2.1",
            "[::1]",
            "[::1]:9",
            "nas.example.org",
            "NAS.example.ORG:9150",
            &own,
            &format!("{own}:9150"),
        ] {
            assert!(get(address, "/metrics", host).contains("200 OK"), "{host}");
        }
        assert!(exchange(address, "GET /metrics HTTP/1.0\r\n\r\n").contains("200 OK"));
        for host in [
            "attacker.example",
            "attacker.example:9150",
            "localhost.example",
            "",
            ":9150",
            "127.0.0.1.example",
            "nas.example.org.attacker.example",
            "example.org",
            "attacker.nas.example.org",
            &format!("{own}.attacker.example"),
            "nas.example.org@attacker.example",
            "attacker.example, nas.example.org",
        ] {
            let answer = get(address, "/metrics", host);
            assert!(!answer.contains("penstock_up"), "{host}: {answer}");
        }
        // The name in the target is what counts where there is one (RFC 9112 §3.2.2), and two hosts are none.
        let target = "GET http://attacker.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let two = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n";
        for request in [target, two] {
            let answer = exchange(address, request);
            assert!(!answer.contains("penstock_up"), "{request}: {answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_no_request_is_refused_or_closed() {
    with_server(|address| {
        let long = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
            "x".repeat(limits::HTTP_HEAD_BYTES_MAX)
        );
        let many = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
            "A: b\r\n".repeat(limits::HTTP_HEADERS_MAX)
        );
        let nothing = "\0".repeat(100);
        for request in [
            &*long,
            &many,
            &nothing,
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\r\n\r\n\r\n ",
        ] {
            let answer = exchange(address, request);
            assert!(!answer.contains("penstock_up"), "{answer}");
        }
        assert!(get(address, "/metrics", "localhost").contains("penstock_up 1"));
    })
    .await;
}

#[tokio::test]
async fn who_says_nothing_or_reads_nothing_is_sent_away() {
    with_server(|address| {
        let mut silent = BlockingStream::connect(address).unwrap();
        let mut slow = BlockingStream::connect(address).unwrap();
        slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: local")
            .unwrap();
        assert!(!rest(&mut silent).contains("penstock_up"));
        assert!(!rest(&mut slow).contains("penstock_up"));
        assert!(get(address, "/metrics", "localhost").contains("penstock_up 1"));
    })
    .await;
}

#[tokio::test]
async fn a_crowd_of_one_host_leaves_room_for_another() {
    with_server(|address| {
        let crowd: Vec<BlockingStream> = (0..4 * limits::HTTP_CONNECTIONS_MAX)
            .map(|_| BlockingStream::connect(address).unwrap())
            .collect();
        // Loopback has many addresses: this one is another host's as far as the server sees.
        let other = socket_from("127.0.0.2:0", address);
        let mut other = BlockingStream::from(other);
        other
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        assert!(rest(&mut other).contains("penstock_up 1"));
        drop(crowd);
    })
    .await;
}

/// A connection to `to` from the address `from`.
fn socket_from(from: &str, to: SocketAddr) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &from.parse::<SocketAddr>().unwrap()).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    socket
}
