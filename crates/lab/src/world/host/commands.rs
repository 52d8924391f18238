//! Commands that a host's server has its adapter carry out.

use cellgate_core::adapter::{AttachmentIndex, OpenRequest, Outcome, Refusal, VcId, VcInfo};
use cellgate_core::keeper::{Ask, NewRegion};

use super::lifecycle::is_told;
use super::{Host, Ordered};
use crate::board::{LabCommand, LabCompletion};
use crate::memory::{LabRegion, RegionSizes};
use crate::mutants::LabAdapter;
use crate::world::endpoint::{Client, Endpoint, Handles};

/// What a command brings along.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    /// A client's memory: its number at the host.
    pub(crate) client: Option<usize>,
    /// A VC's memory, as its client has it.
    pub(crate) handles: Option<Handles>,
}

/// What an order was for that a server gave.
#[derive(Clone, Copy, Debug)]
pub(super) enum AskedFor {
    Attach(usize),
    Detach(AttachmentIndex),
    /// A VC like this is to be open.
    Opens(OpenRequest),
    Other,
}

/// How a command of a server ended.
pub(crate) type Answer = (u64, Result<Outcome, Refusal>);

/// One end of a connection that a server has opened, as its application hears of it.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) connection: u32,
    pub(crate) client: usize,
    pub(crate) vc: VcId,
    pub(crate) request: OpenRequest,
    /// Ticket of the command that brought the memory.
    pub(crate) memory: u64,
    pub(crate) handles: Handles,
    /// Another application has used it before.
    pub(crate) used: bool,
}

impl Host {
    /// Gives a server's command to the adapter: its ticket, and the memory that goes along. None:
    /// it is none for the adapter.
    pub(crate) fn commands(
        &mut self,
        ask: &Ask,
        sizes: impl Fn(cellgate_core::queue::ConnectionSizes) -> RegionSizes,
    ) -> Option<(u64, Brought)> {
        let mut brought = Brought::default();
        let asked = match ask {
            Ask::Attach { .. } => AskedFor::Attach(self.clients.len()),
            Ask::Detach { attachment } => AskedFor::Detach(*attachment),
            Ask::Open { request, .. } | Ask::Modify { request, .. } => AskedFor::Opens(*request),
            _ => AskedFor::Other,
        };
        let ticket = self.ticket(Ordered::Asked(asked));
        let command = match *ask {
            Ask::Attach { .. } => {
                let mut client = Client::new(self.spec.event_slots);
                client.ticket = ticket;
                let attachment = client.memory.clone();
                if let Some(judge) = &mut self.judge {
                    judge.attaches(ticket, &attachment);
                }
                brought.client = Some(self.clients.len());
                self.clients.push(client);
                LabCommand::Attach { ticket, attachment }
            }
            Ask::Detach { attachment: index } => {
                if let Some(judge) = &mut self.judge {
                    judge.detaches(ticket, index);
                }
                LabCommand::Detach { ticket, index }
            }
            Ask::Open {
                request,
                sizes: asked,
                ..
            } => {
                let region = LabRegion::for_request(sizes(asked), &request);
                brought.handles = Some(Handles::of(&region));
                let lies = self.is_of_liar(&request);
                if let Some(judge) = &mut self.judge {
                    if lies {
                        judge.let_go(ticket);
                    }
                    judge.opens(ticket, &request, region.sizes(), &region);
                }
                LabCommand::Open {
                    ticket,
                    request,
                    region,
                }
            }
            Ask::Modify {
                vc,
                request,
                region: asked,
                ..
            } => {
                let made = |asked: NewRegion| LabRegion::for_request(sizes(asked.sizes), &request);
                let region = asked.map(made);
                brought.handles = region.as_ref().map(Handles::of);
                let lies = region.is_some() && self.is_of_liar(&request);
                if let Some(judge) = &mut self.judge {
                    if lies {
                        judge.let_go(ticket);
                    }
                    judge.modifies(ticket, vc, &request, region.as_ref());
                }
                LabCommand::Modify {
                    ticket,
                    vc,
                    request,
                    region,
                }
            }
            Ask::Reattach { vc, attachment, .. } => {
                if let Some(judge) = &mut self.judge {
                    judge.reattaches(ticket, vc, attachment);
                }
                LabCommand::Reattach {
                    ticket,
                    vc,
                    attachment,
                }
            }
            Ask::Close { vc } => {
                if let Some(judge) = &mut self.judge {
                    judge.closes(ticket, vc);
                }
                LabCommand::Close { ticket, vc }
            }
            Ask::Lease {
                vc,
                pdus,
                expires_in_ns,
            } => {
                if let Some(judge) = &mut self.judge {
                    judge.lends(ticket, vc, pdus, expires_in_ns);
                }
                LabCommand::Lease {
                    ticket,
                    vc,
                    pdus,
                    expires_in_ns,
                }
            }
            _ => {
                self.ordered.remove(&ticket);
                return None;
            }
        };
        self.order(ticket, command);
        Some((ticket, brought))
    }

    /// A server's command has ended.
    pub(super) fn asked_for(&mut self, asked: AskedFor, completion: &LabCompletion) {
        let time = self.time(self.steps.last);
        match (asked, &completion.result) {
            (AskedFor::Attach(client), Ok(Outcome::Attached(index))) => {
                self.clients[client].index = Some(*index);
            }
            (AskedFor::Detach(index), Ok(_)) => {
                let gone = self.clients.iter().position(|one| one.index == Some(index));
                if let Some(client) = gone {
                    self.clients[client].goes();
                }
            }
            (AskedFor::Opens(request), Ok(Outcome::Vc(vc))) => {
                self.watch.opens(*vc, &request);
                self.book.opens(time, &request);
                if self.is_of_liar(&request) {
                    self.liars_vcs.insert(*vc);
                    self.watch.is_lied_to(request.port);
                }
            }
            (_, Ok(Outcome::Closed(info))) => {
                self.watch.closes(&info.request);
                self.book.closes(time, info);
                self.closed.push((u32::MAX, info.clone()));
            }
            _ => {}
        }
        let answer = (completion.ticket, completion.result.clone());
        self.answered.push(answer);
    }

    /// An application uses its end of a connection from now on.
    pub(crate) fn adopt(&mut self, end: &End) {
        let whose = (end.connection, end.client);
        let aal = end.request.aal;
        let mut endpoint = Endpoint::new(whose, end.vc, end.memory, &end.handles, aal);
        endpoint.is_lawless = self.is_lawless(end.connection);
        endpoint.is_told = is_told(&end.request) && !endpoint.is_lawless;
        if end.used {
            endpoint = endpoint.resumed(&end.handles);
        }
        self.endpoints.insert(end.vc, endpoint);
        self.by_connection.insert(end.connection, end.vc);
    }

    /// Nobody uses this end of a connection any more: what its last user has found wrong with it.
    pub(crate) fn abandon(&mut self, connection: u32) -> u64 {
        let vc = self.by_connection.remove(&connection);
        let endpoint = vc.and_then(|vc| self.endpoints.remove(&vc));
        // Who lies about what it has read and written reads what comes of that.
        let honest = endpoint.filter(|endpoint| !endpoint.is_lawless);
        honest.map_or(0, |endpoint| endpoint.faults())
    }

    /// Whether a VC is of applications that write where they should not.
    fn is_of_liar(&self, request: &OpenRequest) -> bool {
        self.liars.contains_key(&(request.port, request.address))
    }

    /// Whether there is room for an SDU of a connection.
    pub(crate) fn has_room(&mut self, connection: u32, len: u16) -> bool {
        let endpoint = self.endpoint_of(connection);
        endpoint.is_some_and(|endpoint| endpoint.has_room(len))
    }

    /// Whether everything that was handed over has been sent, as far as its user can know.
    pub(crate) fn has_sent_all(&mut self, connection: u32) -> bool {
        let endpoint = self.endpoint_of(connection);
        endpoint.is_none_or(|endpoint| endpoint.is_lawless || endpoint.has_sent_all())
    }

    fn endpoint_of(&mut self, connection: u32) -> Option<&mut Endpoint> {
        let vc = self.by_connection.get(&connection)?;
        self.endpoints.get_mut(vc)
    }

    /// What the adapter says of a VC.
    pub(crate) fn info(&self, vc: VcId) -> Option<VcInfo> {
        info(&self.adapter, vc)
    }
}

/// What an adapter says of a VC.
pub(crate) fn info(adapter: &LabAdapter, vc: VcId) -> Option<VcInfo> {
    adapter.info(vc.index).filter(|info| info.vc == vc)
}
