//! What is asked for until a resource of the machine is short.
//!
//! Lines are far too fast to be short themselves. What is asked for is drawn; once it is refused,
//! half of it at most, and so on, until the least is refused, too.

use std::time::{Duration, Instant};

use anyhow::Context;
use cellgate::{Resource, ResourceInfo};
use cellgate_host::sys::allowed_cpus;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::actor::Promise;
use super::admission::{Full, cast, what};
use super::ground::Ground;
use super::pair::Pair;

/// Octets of SDU that are drawn. Of small ones the applications' own CPU time is short long before
/// the adapter's.
const SDUS: [u16; 4] = [16_384, 32_768, 49_152, 65_535];
/// PDUs/s of a connection, at most: a credit is for an interval that is long beside a wake-up.
const PDU_S_MAX: u64 = 600;
/// Pairs that are asked for, at most.
const PAIRS_MAX: u32 = 60;
/// Of what there is, in percent, that must be reserved in the end.
const FILLED_MIN_PERCENT: u64 = 90;
/// Millionths of the adapter's core to promise for each CPU that is left to applications.
const ADAPTER_PPM: usize = 200_000;
/// Octets of memory to promise.
const MEMORY: u64 = 32 << 20;
/// How long what is hung up may stay reserved.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is to be short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Short {
    /// The adapter's CPU time
    Cpu,
    /// The adapter's memory
    Memory,
}

impl Short {
    pub(super) const fn resource(self) -> Resource {
        match self {
            Self::Cpu => Resource::AdapterCpu,
            Self::Memory => Resource::Memory,
        }
    }

    /// Octets/s that are asked for: the least and the most.
    const fn octet_s(self) -> (u64, u64) {
        match self {
            Self::Cpu => (1_000_000, 40_000_000),
            Self::Memory => (500_000, 4_000_000),
        }
    }

    /// A daemon's configuration where nothing else is short.
    pub(super) fn config(self) -> String {
        let interface = |name: &str, peer: &str| {
            format!(
                "[[interface]]\nname = \"{name}\"\nline_rate.cell_s = 100000000\n\
                 link.memory.peer = \"{peer}\"\n"
            )
        };
        let limit = match self {
            Self::Cpu => {
                let others = allowed_cpus().len().saturating_sub(1).max(1);
                let ppm = (others * ADAPTER_PPM).min(1_000_000);
                format!("[admission]\nadapter_ppm = {ppm}\n")
            }
            Self::Memory => format!("[adapter]\nmemory_max = {MEMORY}\n"),
        };
        limit + &interface("a", "b") + &interface("b", "a")
    }

    fn info(self, ground: &Ground) -> anyhow::Result<ResourceInfo> {
        let all = ground.admin()?.resources()?;
        let mut of = all
            .into_iter()
            .filter(|info| info.resource == self.resource());
        of.next().context("the daemon does not tell of a resource")
    }

    /// Opens what is drawn until the least is refused.
    pub(super) fn fill(self, seed: u64, ground: &Ground) -> anyhow::Result<Full> {
        let mut rng = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
        let mut full = Full::default();
        let (least, mut most) = self.octet_s();
        for number in 0..PAIRS_MAX {
            let sdu = SDUS[rng.next_u32() as usize % SDUS.len()];
            let octet_s = least + rng.next_u64() % (most - least + 1);
            let octet_s = octet_s.min(PDU_S_MAX * u64::from(sdu));
            let from = rng.next_u32() as usize % 2;
            let before = self.info(ground)?.reserved;
            let cast = cast(number, from, Promise::of(octet_s, sdu));
            let no_room = match Pair::open(ground, cast.clone())? {
                Ok(pair) => {
                    full.pairs.push(pair);
                    continue;
                }
                Err(no_room) => no_room,
            };
            if no_room.resource != self.resource() {
                // An adapter that the machine kept from running has measured itself as a slow one.
                if no_room.resource == Resource::AdapterCpu {
                    let text = format!("CPU time is short before memory: {}", no_room.text);
                    full.void = Some(text);
                    return Ok(full);
                }
                let text = format!("refused for another reason: {}", no_room.text);
                full.errors.push(text);
            }
            full.refusals.push((what(&cast), no_room));
            self.settle(ground, before)?;
            if most == least {
                self.judge(ground, &mut full)?;
                return Ok(full);
            }
            most = (octet_s / 2).max(least);
        }
        // The adapter is far faster than those who would fill it.
        let text = format!("{PAIRS_MAX} pairs were asked for, and the least not refused");
        full.void = Some(text);
        Ok(full)
    }

    /// Waits until the end that was open beside one that was refused is gone.
    fn settle(self, ground: &Ground, before: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.info(ground)?.reserved != before {
            anyhow::ensure!(Instant::now() < deadline, "what was refused stays reserved");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Nearly all must be reserved, and no more than there is.
    fn judge(self, ground: &Ground, full: &mut Full) -> anyhow::Result<()> {
        let ResourceInfo {
            reserved, capacity, ..
        } = self.info(ground)?;
        if reserved > capacity || reserved * 100 < capacity * FILLED_MIN_PERCENT {
            let text = format!("{reserved} of {capacity} are reserved, and no more is admitted");
            full.errors.push(text);
        }
        full.filled = Some((reserved, capacity));
        Ok(())
    }
}
