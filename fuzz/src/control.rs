//! What arrives on the control descriptor.

use cellgate_host::control::{Reply, Request};
use serde::{Serialize, de::DeserializeOwned};

/// A message as request and as reply: what was read, written and read again is the same.
pub fn control(data: &[u8]) {
    again::<Request>(data);
    again::<Reply>(data);
}

fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(data: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(data) else {
        return;
    };
    let text = serde_json::to_string(&message).expect("messages can be written");
    let reread: T = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(reread, message);
}
