//! The command, daemons and adapters as they run: what is measured, killed and filled up.

mod daemon;
mod gaps;
mod iperf3;
mod load;
mod netns;
mod spinners;

mod abr;
mod cpu_time;
mod demo;
mod demo_udp;
mod doctor;
mod events;
mod guarantee;
mod guide;
mod kills;
mod lending;
mod line;
mod machine;
mod neighbours;
mod overload;
#[cfg(feature = "page")]
mod page;
mod probes;
mod quota;
mod readme;
mod serve;
mod systemd;
mod tun;
mod two_hosts;
mod upgrade;
mod video;
