//! Who takes part.

use serde::{Deserialize, Serialize};

/// How somebody waits who has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Waits {
    /// Tries again at once.
    Spinning,
    /// Tries again when others of its CPU had their turn.
    Yielding,
    /// In the kernel.
    Sleeping,
}

/// A socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Socket {
    SeqPacket,
    UnixDatagram,
    Udp,
}

/// One that carries SDUs to a reader and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// Two applications on one CPU, the adapter on the other; or one, whose connection receives
    /// what it sends, if they spin.
    Cellgate { in_place: bool, waits: Waits },
    /// A process on each CPU.
    Socket { socket: Socket, waits: Waits },
    /// The same, without an SDU.
    EventFd,
    #[cfg(feature = "iceoryx2")]
    Iceoryx2,
}

impl Kind {
    /// All, those that need the adapter first.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for waits in [Waits::Spinning, Waits::Yielding, Waits::Sleeping] {
            for in_place in [false, true] {
                all.push(Self::Cellgate { in_place, waits });
            }
        }
        for waits in [Waits::Spinning, Waits::Sleeping] {
            for socket in [Socket::SeqPacket, Socket::UnixDatagram, Socket::Udp] {
                all.push(Self::Socket { socket, waits });
            }
        }
        all.push(Self::EventFd);
        #[cfg(feature = "iceoryx2")]
        all.push(Self::Iceoryx2);
        all
    }

    /// Whether the adapter carries it; otherwise it is stopped.
    pub(super) fn needs_adapter(self) -> bool {
        matches!(self, Self::Cellgate { .. })
    }

    /// Whether another application answers.
    pub(super) fn has_partner(self) -> bool {
        !self.is_loop()
    }

    fn is_loop(self) -> bool {
        let waits = Waits::Spinning;
        matches!(self, Self::Cellgate { waits: w, .. } if w == waits)
    }

    /// Whether an SDU can be lost on the way.
    pub(super) fn may_lose(self) -> bool {
        matches!(
            self,
            Self::Socket {
                socket: Socket::Udp,
                ..
            }
        )
    }

    /// Whether it carries SDUs at all.
    pub(super) fn carries(self) -> bool {
        self != Self::EventFd
    }

    pub(super) fn name(self) -> String {
        let waiting = |waits| match waits {
            Waits::Sleeping => "sleeping",
            Waits::Spinning | Waits::Yielding => "polling",
        };
        match self {
            Self::Cellgate { in_place, waits } => {
                let how = if in_place { "zero-copy" } else { "sockets" };
                let who = if self.is_loop() { "1" } else { "2" };
                format!("cellgate {how}, {}, {who} app", waiting(waits))
            }
            Self::Socket { socket, waits } => {
                let name = match socket {
                    Socket::SeqPacket => "SOCK_SEQPACKET",
                    Socket::UnixDatagram => "Unix datagram",
                    Socket::Udp => "loopback UDP",
                };
                format!("{name}, {}", waiting(waits))
            }
            Self::EventFd => "eventfd, no SDU, sleeping".to_owned(),
            #[cfg(feature = "iceoryx2")]
            Self::Iceoryx2 => "iceoryx2, polling".to_owned(),
        }
    }
}
