//! A small HTTP server for figures: `/metrics`, and the page of `penstock serve --web`.
//!
//! It answers GET and HEAD of a few fixed paths, each by a function that is handed in, and nothing else: no
//! query, no body, one request for each connection. A hostile peer costs a place among
//! [`limits::HTTP_CONNECTIONS_MAX`], of which one host may have a quarter, for at most
//! [`limits::HTTP_SECONDS_MAX`]; answers are made one at a time, on a thread that may block, so that neither the
//! shards nor whoever accepts NFS connections wait for them.
//!
//! A request has to call the server by an address, as `localhost`, or by one of its [`Names`], wherever it listens: a page
//! of another site has its own name there, also when that name was made to lead to this server's address (DNS
//! rebinding), and its scripts would read what is served here through the browser of somebody who can reach it.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::limits;
use crate::slots::peers::{Entered, Peers};

/// The body of an answer, with what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Media type of the body.
    pub content_type: &'static str,
    /// What is sent.
    pub body: Bytes,
    /// The policy that a browser is to hold the page to (`Content-Security-Policy`), for pages.
    pub security_policy: Option<String>,
}

/// Makes the answer of one path; may block.
type Answer = Box<dyn Fn() -> Page + Send + Sync>;

/// Which paths are answered, and how.
#[derive(Default)]
pub struct Routes {
    answers: Vec<(&'static str, Answer)>,
}

/// The names by which requests may call the server, beside its addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// These names and that of the host (uname(2)).
    #[must_use]
    pub fn with_host(names: &[String]) -> Self {
        let uname = rustix::system::uname();
        let host = uname.nodename().to_str().map(str::to_owned);
        // A host that nobody gave a name has an empty one, which a request without a name is not to have.
        let host = host.ok().filter(|host| !host.is_empty());
        Self(names.iter().cloned().chain(host).collect())
    }

    /// Whether it is one of them; as DNS has it, capitals do not matter.
    fn have(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl Routes {
    /// The same routes and one more: GET of exactly `path` is answered with what `answer` makes.
    #[must_use]
    pub fn with(
        mut self,
        path: &'static str,
        answer: impl Fn() -> Page + Send + Sync + 'static,
    ) -> Self {
        self.answers.push((path, Box::new(answer)));
        self
    }
}

/// A bound socket that is not served yet.
#[derive(Debug)]
pub struct HttpListener(TcpListener);

impl HttpListener {
    /// Binds `address`; port 0 takes a free one. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// What the system says.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).await.map(Self)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers requests that call the server by one of `names`, or by its address, until the future is dropped.
    pub async fn serve(self, routes: Routes, names: Names) {
        let peers = Arc::new(Peers::new(limits::HTTP_CONNECTIONS_MAX));
        let served = Arc::new(Served {
            routes,
            names,
            turn: Semaphore::new(1),
        });
        loop {
            match self.0.accept().await {
                Ok((stream, peer)) => {
                    let Some(entered) = peers.enter(peer.ip()) else {
                        continue;
                    };
                    let served = Arc::clone(&served);
                    tokio::spawn(async move {
                        let seconds = Duration::from_secs(limits::HTTP_SECONDS_MAX);
                        // How a stranger's connection ends is not worth a word.
                        tokio::select! {
                            _ = tokio::time::timeout(seconds, converse(stream, &entered, served)) => {}
                            () = entered.displaced() => {}
                        }
                    });
                }
                // Out of descriptors, for the most part: to try again at once would spin.
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }
}

/// What all connections of a listener share.
struct Served {
    routes: Routes,
    names: Names,
    /// Answers are made one at a time.
    turn: Semaphore,
}

async fn converse(stream: TcpStream, entered: &Entered, served: Arc<Served>) -> hyper::Result<()> {
    let service = service_fn(|request: Request<Incoming>| {
        entered.moved();
        let served = Arc::clone(&served);
        async move { Ok::<_, Infallible>(answer(&request, served).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits::HTTP_SECONDS_MAX))
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_headers(limits::HTTP_HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: &Request<Incoming>, served: Arc<Served>) -> Response<Full<Bytes>> {
    if !calls_this_server(request, &served.names) {
        return refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "a browser may have been led here by a name that is not this server's: ask by address, as localhost, by the \
             host's own name, or by one of `http_names` in [server]\n",
        );
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = refusal(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered here\n",
        );
        let allow = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(header::ALLOW, allow);
        return refused;
    }
    let path = request.uri().path();
    let answers = &served.routes.answers;
    let Some(route) = answers.iter().position(|(known, _)| *known == path) else {
        let known: String = served
            .routes
            .answers
            .iter()
            .map(|(known, _)| format!("{known}\n"))
            .collect();
        return refusal(
            StatusCode::NOT_FOUND,
            &format!("what is served here:\n{known}"),
        );
    };
    let made = {
        // Never closed.
        let _turn = served.turn.acquire().await;
        let served = Arc::clone(&served);
        tokio::task::spawn_blocking(move || {
            served.routes.answers.get(route).map(|(_, make)| make())
        })
        .await
    };
    match made {
        Ok(Some(page)) => response(StatusCode::OK, page),
        Ok(None) | Err(_) => {
            tracing::error!(path, "making an answer for HTTP failed");
            refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server failed; see its log\n",
            )
        }
    }
}

/// Whether the request calls this server by an address, as localhost, or by one of its names. One without a name does, too:
/// no browser sends such.
fn calls_this_server(request: &Request<Incoming>, names: &Names) -> bool {
    let is_ours = |named: &str| {
        let host = match named.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            Some(_) | None => named,
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        host.eq_ignore_ascii_case("localhost")
            || names.have(host)
            || bare.unwrap_or(host).parse::<IpAddr>().is_ok()
    };
    let target = request.uri().authority();
    let hosts = request.headers().get_all(header::HOST).iter();
    // Each of them, where there are several: who else reads the request may go by another one.
    target.is_none_or(|target| is_ours(target.as_str()))
        && hosts
            .map(|host| host.to_str().ok())
            .all(|host| host.is_some_and(is_ours))
}

fn refusal(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let page = Page {
        content_type: "text/plain; charset=utf-8",
        body: Bytes::copy_from_slice(text.as_bytes()),
        security_policy: None,
    };
    response(status, page)
}

fn response(status: StatusCode, page: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(page.body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(page.content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let no_sniffing = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, no_sniffing);
    let same_origin = HeaderValue::from_static("same-origin");
    headers.insert("cross-origin-resource-policy", same_origin);
    if let Some(policy) = page.security_policy {
        // A page that a browser is to be held to a policy for does not go out without it.
        match HeaderValue::try_from(policy) {
            Ok(policy) => headers.insert(header::CONTENT_SECURITY_POLICY, policy),
            Err(_) => {
                return refusal(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the page's policy is no header\n",
                );
            }
        };
        let referrer = HeaderValue::from_static("no-referrer");
        headers.insert(header::REFERRER_POLICY, referrer);
    }
    response
}

#[cfg(test)]
mod tests;
