//! Who may ask a site, and what all its answers have.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Answer = Response<Body>;

/// What answers requests.
pub(super) trait Site: Send + Sync + 'static {
    /// Whether this is asked by a name that nobody else can have pointed at it.
    fn knows(&self, host: Option<&HeaderValue>) -> bool;

    /// Answers a request of somebody who may ask.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Whether a header's host is an IP address, `localhost`, or one of `named`.
pub(super) fn is_known(host: Option<&HeaderValue>, named: &[String]) -> bool {
    let host = host.and_then(|host| host.to_str().ok());
    host.is_some_and(|host| is_own_host(host, named))
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
pub(super) async fn answer(
    site: &impl Site,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    if !site.knows(request.headers().get(header::HOST)) {
        let why = "This host is not known here. Ask by an IP address or localhost, or name the \
                   host where the command was started: `--host NAME`.\n";
        return Ok(text(StatusCode::MISDIRECTED_REQUEST, why));
    }
    let head = request.method() == Method::HEAD;
    let mut answer = site.answer(request).await;
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

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";
pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const EVENTS: &str = "text/event-stream";

pub(super) fn full(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

pub(super) fn text(status: StatusCode, words: &str) -> Answer {
    full(status, TEXT, words.to_owned())
}

/// The answer to a method that would change something.
pub(super) fn read_only() -> Answer {
    let mut answer = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "This page is to be read only.\n",
    );
    let allowed = HeaderValue::from_static("GET, HEAD");
    answer.headers_mut().insert(header::ALLOW, allowed);
    answer
}

/// The answer where there is nothing.
pub(super) fn nothing_here() -> Answer {
    text(StatusCode::NOT_FOUND, "There is nothing here.\n")
}

/// An answer of HTML. Its script and style have the word `nonce`: what a name from elsewhere
/// brings along has not. `also` is what else the policy allows.
pub(super) fn html(page: String, nonce: &str, also: &str) -> Answer {
    let mut answer = full(StatusCode::OK, HTML, page);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src data:; {also}base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    // Hexadecimal digits are fit for a header.
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

/// A word that nobody can guess.
pub(super) fn nonce() -> String {
    let mut octets = [0; 16];
    // The kernel has random octets for everybody once it has begun.
    let _ = rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::empty());
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
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
}
