//! What the page of a daemon answers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use super::site::{self, Answer, EVENTS, JSON, Site, full, is_known, text};
use super::viewers::{Viewer, Viewers};
use super::{Options, Shared, html, lock};
use crate::{metrics, view};

/// Octets of what a visitor of a demo asks for.
const STEERING_MAX: usize = 1_024;

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
}

impl Site for Room {
    fn knows(&self, host: Option<&HeaderValue>) -> bool {
        self.any_host || is_known(host, &self.options.hosts)
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let head = request.method() == Method::HEAD;
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, path) => {
                let query = request.uri().query().unwrap_or("");
                let accepts = request.headers().get(header::ACCEPT);
                let accepts = accepts
                    .and_then(|accepts| accepts.to_str().ok())
                    .unwrap_or("");
                read(self, path, query, (head, accepts)).await
            }
            (&Method::POST, "/steer") => steer(self, request).await,
            _ => site::read_only(),
        }
    }
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
        _ => site::nothing_here(),
    }
}

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page with its first state.
fn page(seen: Result<&crate::Look, &str>) -> Answer {
    let nonce = site::nonce();
    site::html(html::page(seen, &nonce), &nonce, "")
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
