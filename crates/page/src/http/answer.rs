//! Who may ask, and what is answered.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use super::viewers::{Viewer, Viewers};
use super::{Options, Shared, html, lock};
use crate::{metrics, view};

/// Octets of what a visitor of a demo asks for.
const STEERING_MAX: usize = 1_024;

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<Body>;

/// What all answers are made of.
pub(super) struct Room {
    source: Shared,
    viewers: Arc<Viewers>,
    options: Options,
    /// A web server forwards to it, and looks after hosts.
    any_host: bool,
}

impl Room {
    pub(super) const fn new(
        source: Shared,
        viewers: Arc<Viewers>,
        options: Options,
        any_host: bool,
    ) -> Self {
        Self {
            source,
            viewers,
            options,
            any_host,
        }
    }

    /// Whether this is asked by a name that nobody else can have pointed at it.
    fn knows(&self, host: Option<&HeaderValue>) -> bool {
        let host = host.and_then(|host| host.to_str().ok());
        self.any_host || host.is_some_and(|host| is_own_host(host, &self.options.hosts))
    }
}

/// Whether a `Host` is an IP address, `localhost`, or one of `named`. Any other name is somebody's
/// who may have a browser of this machine ask here for him (DNS rebinding).
fn is_own_host(host: &str, named: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else {
                return false;
            };
            return address.parse::<IpAddr>().is_ok() && is_port(port);
        }
        None => match host.split_once(':') {
            Some((name, port)) if is_port(&format!(":{port}")) => name,
            Some(_) => return false,
            None => host,
        },
    };
    let is = |of: &String| of.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || named.iter().any(is)
}

/// Whether this is nothing, or a colon and a port.
fn is_port(text: &str) -> bool {
    let port = text.strip_prefix(':').map(str::parse::<u16>);
    text.is_empty() || matches!(port, Some(Ok(_)))
}

/// Answers one request.
pub(super) async fn answer(room: &Room, request: Request<Incoming>) -> Result<Answer, Infallible> {
    if !room.knows(request.headers().get(header::HOST)) {
        let why = "This host is not known here. Ask by an IP address or localhost, or name the \
                   host: `cellgate page --host NAME`.\n";
        return Ok(text(StatusCode::MISDIRECTED_REQUEST, why));
    }
    let head = request.method() == Method::HEAD;
    let mut answer = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, path) => {
            let query = request.uri().query().unwrap_or("");
            let accepts = request.headers().get(header::ACCEPT);
            let accepts = accepts
                .and_then(|accepts| accepts.to_str().ok())
                .unwrap_or("");
            read(room, path, query, (head, accepts)).await
        }
        (&Method::POST, "/steer") => steer(room, request).await,
        _ => {
            let mut answer = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "This page is to be read only.\n",
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            answer.headers_mut().insert(header::ALLOW, allowed);
            answer
        }
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if head {
        *answer.body_mut() = Empty::new().boxed_unsync();
    }
    Ok(answer)
}

async fn read(room: &Room, path: &str, query: &str, (head, accepts): (bool, &str)) -> Answer {
    let newest = room.viewers.newest();
    match (path, &*newest) {
        ("/", _) => page(newest.as_ref().as_ref().map_err(String::as_str)),
        ("/events", _) if head => full(StatusCode::OK, EVENTS, Bytes::new()),
        ("/events", _) => match room.viewers.admit() {
            Some(viewer) => events(viewer),
            None => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "As many look already as may.\n",
            ),
        },
        ("/healthz", Ok(_)) => text(StatusCode::OK, "ok\n"),
        ("/api/state", Ok(look)) => full(StatusCode::OK, JSON, view::whole(look)),
        ("/metrics", Ok(look)) => {
            let metrics = metrics::text(&look.stats, room.options.per_vc);
            match accepts.contains("application/openmetrics-text") {
                true => full(StatusCode::OK, OPEN_METRICS, metrics),
                false => full(StatusCode::OK, PROMETHEUS, metrics::plain(&metrics)),
            }
        }
        ("/api/try", _) => try_open(room, query).await,
        ("/healthz" | "/api/state" | "/metrics", Err(why)) => {
            text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n"))
        }
        _ => text(StatusCode::NOT_FOUND, "There is nothing here.\n"),
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const EVENTS: &str = "text/event-stream";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn full(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

fn text(status: StatusCode, words: &str) -> Answer {
    full(status, TEXT, words.to_owned())
}

/// The page with its first state. Its script and style have a word that nobody can guess: what a
/// name from elsewhere brings along has not.
fn page(seen: Result<&crate::Look, &str>) -> Answer {
    let nonce = nonce();
    let mut answer = full(StatusCode::OK, HTML, html::page(seen, &nonce));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    // Hexadecimal digits are fit for a header.
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

fn nonce() -> String {
    let mut octets = [0; 16];
    // The kernel has random octets for everybody once it has begun.
    let _ = rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::empty());
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// All there is, then what changes, until the viewer has gone or fallen behind.
fn events(viewer: Viewer) -> Answer {
    let Viewer {
        whole,
        changes,
        place,
    } = viewer;
    let changes = BroadcastStream::new(changes)
        // One that has left messages unread comes again, and sees all anew.
        .take_while(Result::is_ok)
        .filter_map(Result::ok);
    let all = tokio_stream::once(whole).chain(changes).map(move |octets| {
        let _as_long_as_this = &place;
        Ok::<_, Infallible>(Frame::data(octets))
    });
    let mut answer = Response::new(StreamBody::new(all).boxed_unsync());
    let kind = HeaderValue::from_static(EVENTS);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// Whether a contract would be admitted: `address` and `contract` of the query.
async fn try_open(room: &Room, query: &str) -> Answer {
    let [mut address, mut contract] = [None, None];
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "address" => address = decoded(value),
            "contract" => contract = decoded(value),
            _ => {}
        }
    }
    let (Some(address), Some(contract)) = (address, contract) else {
        let why = "Say which: /api/try?address=ADDRESS&contract=CONTRACT.\n";
        return text(StatusCode::BAD_REQUEST, why);
    };
    let source = Arc::clone(&room.source);
    let tried =
        tokio::task::spawn_blocking(move || lock(&source).try_open(&address, &contract)).await;
    match tried {
        Ok(Ok(answer)) => full(StatusCode::OK, JSON, answer.to_string()),
        Ok(Err(why)) => full(StatusCode::OK, JSON, json!({ "error": why }).to_string()),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "Nobody could tell.\n"),
    }
}

/// What a form has encoded (URL Standard, section 5); none: it is no text.
fn decoded(value: &str) -> Option<String> {
    let mut octets = Vec::new();
    let mut rest = value.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'+' => b' ',
            b'%' => {
                let digit = |octet: u8| char::from(octet).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(16 * high + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(octets).ok()
}

/// What a visitor of a demo asks for, with the token of the address that was printed.
async fn steer(room: &Room, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let token = head.headers.get("x-token");
    let token = token.and_then(|token| token.to_str().ok()).unwrap_or("");
    let token = token.to_owned();
    if body.size_hint().lower() > STEERING_MAX as u64 {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "That is too long.\n");
    }
    let collected =
        tokio::time::timeout(super::PATIENCE, Limited::new(body, STEERING_MAX).collect());
    let Ok(Ok(body)) = collected.await else {
        return text(StatusCode::BAD_REQUEST, "That was not said.\n");
    };
    let Ok(what) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return text(StatusCode::BAD_REQUEST, "That is no JSON.\n");
    };
    match lock(&room.source).steer(&token, &what) {
        true => text(StatusCode::OK, "done\n"),
        false => text(
            StatusCode::FORBIDDEN,
            "Only a demo is steered, by its own token.\n",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_and_those_named() {
        let named = ["box.lan".to_owned()];
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]:80",
            "[::1]",
            "localhost:1",
            "BOX.lan",
        ] {
            assert!(is_own_host(host, &named), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "[::1",
            "[::1]x",
            "1.2.3.4:x",
        ] {
            assert!(!is_own_host(host, &named), "{host}");
        }
    }

    #[test]
    fn what_forms_encode_is_decoded() {
        assert_eq!(
            decoded("cbr%2Caal5%3Apcr%3D1+2").as_deref(),
            Some("cbr,aal5:pcr=1 2")
        );
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
