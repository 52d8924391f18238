mod eyesdn;
mod pcapng;
mod recorder;

pub use eyesdn::EyeSdnWriter;
pub use pcapng::{InterfaceId, Packet, PcapngWriter};
pub use recorder::{Item, Recorder};
