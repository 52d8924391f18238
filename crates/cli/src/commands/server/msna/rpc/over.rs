use std::io;

use cellgate_msna::rpc::{CallerTransport, ServerTransport};
use cellgate_msna::{Address, Call, Exchanger, Node};
use futures::{Sink, SinkExt, Stream, StreamExt, future};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio_util::bytes::Bytes;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::commands::server::Misuse;
use crate::commands::server::msna::told;

/// A message is refused beyond this.
const FRAME_MAX: usize = 2 << 20;

/// A connection that carries messages in postcard, each with its length before it.
pub(super) fn framed<In: DeserializeOwned, Out: Serialize>(
    stream: TcpStream,
) -> anyhow::Result<impl Stream<Item = io::Result<In>> + Sink<Out, Error = io::Error> + Unpin> {
    stream.set_nodelay(true)?;
    let mut codec = LengthDelimitedCodec::new();
    codec.set_max_frame_length(FRAME_MAX);
    let framed = Framed::new(stream, codec)
        .map(|frame| postcard::from_bytes(&frame?).map_err(io::Error::other));
    Ok(framed.with(|message: Out| {
        let octets = postcard::to_stdvec(&message).map_err(io::Error::other);
        future::ready(octets.map(Bytes::from))
    }))
}

/// The calling end of MSNA.
pub(super) fn caller<Req: Serialize, Resp: DeserializeOwned>(
    node: Node,
    to: Address,
) -> anyhow::Result<CallerTransport<Req, Resp>> {
    CallerTransport::new(exchanger(node)?, to).map_err(told)
}

/// The called end of MSNA.
pub(super) fn called<Req: DeserializeOwned, Resp: Serialize>(
    node: Node,
    at: Address,
) -> anyhow::Result<ServerTransport<Req, Resp>> {
    let mut exchanger = exchanger(node)?;
    exchanger.serve(at.sap);
    ServerTransport::new(exchanger).map_err(told)
}

fn exchanger(node: Node) -> anyhow::Result<Exchanger> {
    Exchanger::new(node, Call::default()).map_err(told)
}

/// An access point of MSNA.
pub(super) fn address(text: &str) -> anyhow::Result<Address> {
    let address: Result<Address, _> = text.parse();
    address.map_err(|error| Misuse(format!("{text}: {error}")).into())
}
