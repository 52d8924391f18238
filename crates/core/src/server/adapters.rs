//! The server's adapters: each has its own links, VCs, attachments and books, and dies alone.

use super::connection::Attached;
use super::machine::Server;
use super::reopening::Reopening;
use super::{AdapterIndex, AdapterInfo, Bugs, ServerAdapter, SharedCpu};
use crate::Time;
use crate::adapter::AttachmentIndex;

/// The server's record of one adapter.
#[derive(Debug)]
pub(super) struct Adapter {
    /// None: it is away.
    pub(super) home: Option<Home>,
    /// When links that were refused are asked for again at the earliest.
    pub(super) link_again: Time,
    /// How it has run.
    pub(super) health: AdapterInfo,
    /// Other adapters on its CPU.
    pub(super) shared: Option<SharedCpu>,
    /// How many there were before it.
    pub(super) replaced: u64,
    pub(super) reopening: Reopening,
}

impl Adapter {
    pub(super) fn away() -> Self {
        Self {
            home: None,
            link_again: Time::ZERO,
            health: AdapterInfo::default(),
            shared: None,
            replaced: 0,
            reopening: Reopening::default(),
        }
    }
}

/// From one time that links are asked for again to the next, in nanoseconds.
const LINK_AGAIN_NS: u64 = 5_000_000_000;

/// The server's own attachment: permanent connections that nobody uses are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    None,
    Asked,
    At(Attached),
}

impl<B: Bugs> Server<B> {
    /// The adapters, by their places.
    pub(super) fn adapter_indices(&self) -> impl Iterator<Item = AdapterIndex> + use<B> {
        (0..).map(AdapterIndex).take(self.adapters.len())
    }

    /// Whether an adapter is away, or there is none such.
    pub(super) fn is_away(&self, adapter: AdapterIndex) -> bool {
        self.home(adapter).is_none()
    }

    pub(super) fn home(&self, adapter: AdapterIndex) -> Option<Home> {
        self.adapters.get(adapter.place())?.home
    }

    pub(super) fn set_home(&mut self, adapter: AdapterIndex, home: Option<Home>) {
        if let Some(adapter) = self.adapters.get_mut(adapter.place()) {
            adapter.home = home;
        }
    }

    /// Whether it is time to ask an adapter that is there for links that it has refused.
    pub(super) fn links_are_due(&self, adapter: AdapterIndex) -> bool {
        let adapter = self.adapters.get(adapter.place());
        adapter.is_some_and(|one| one.home.is_some() && one.link_again <= self.now)
    }

    /// An adapter is asked for links now.
    pub(super) fn note_links(&mut self, adapter: AdapterIndex) {
        if let Some(adapter) = self.adapters.get_mut(adapter.place()) {
            adapter.link_again = self.now.plus_ns(LINK_AGAIN_NS);
        }
    }

    /// The server's own attachment, if it is there.
    pub(super) fn home_attachment(&self, adapter: AdapterIndex) -> Option<AttachmentIndex> {
        match self.home(adapter) {
            Some(Home::At(attached)) => Some(attached.index),
            Some(Home::None | Home::Asked) | None => None,
        }
    }

    /// The adapter that an interface names; without a name the first.
    pub(super) fn adapter_named(&self, name: Option<&str>) -> Option<AdapterIndex> {
        let Some(name) = name else {
            return Some(AdapterIndex::FIRST);
        };
        let mut all = self.config.adapters.iter().zip(self.adapter_indices());
        let found = all.find(|(one, _)| one.name.as_deref() == Some(name));
        found.map(|(_, index)| index)
    }

    /// The name of an adapter; none: it is the only one.
    pub(super) fn adapter_name(&self, adapter: AdapterIndex) -> Option<&str> {
        self.config.adapter(adapter).name.as_deref()
    }

    /// How all have run.
    pub(super) fn adapter_infos(&self) -> Vec<AdapterInfo> {
        let all = self.adapters.iter().zip(&self.config.adapters);
        let info = |(adapter, of): (&Adapter, &ServerAdapter)| AdapterInfo {
            name: of.name.clone(),
            replaced: adapter.replaced,
            gap_admitted_ns: of.gap_max_ns,
            shared: adapter.shared.clone(),
            ..adapter.health.clone()
        };
        all.map(info).collect()
    }
}
