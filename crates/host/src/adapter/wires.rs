//! Requests about what a port's cells travel over: pseudowires and faults.

use std::sync::Arc;

use cellgate_core::FaultyLine;
use cellgate_core::adapter::PortIndex;
use cellgate_core::wire::CellFormat;

use super::board::{HostCommand, PortEnd};
use super::records::{Asker, Enclosed, EndRecord, Pending, PortRecord};
use super::requests::kernel;
use super::service::Service;
use crate::control::{Answer, ControlError};
use crate::link::fault::FaultRates;
use crate::link::udp::{UdpOptions, UdpReceiver, UdpSender};
use crate::link::{PortFaults, ReceiveEnd, Shown, TransmitEnd};

type Handled = Result<(), ControlError>;

impl Service {
    /// Makes both ends of a pseudowire and hands them to the firmware thread.
    pub(super) fn pseudowire(
        &mut self,
        asker: Asker,
        port: PortIndex,
        options: &UdpOptions,
    ) -> Handled {
        self.ensure_free(asker, port)?;
        let config = self.options.config.ports.get(usize::from(port.0));
        if config.is_none_or(|config| config.format != CellFormat::NoHec) {
            return Err(ControlError::BadGeometry(
                "a pseudowire's cells have no HEC".to_owned(),
            ));
        }
        let refused = |error: crate::link::udp::UdpError| match error {
            error @ crate::link::udp::UdpError::Kernel { .. } => kernel(error),
            other => ControlError::Pseudowire(other.to_string()),
        };
        let clump = self.options.config.clump_cells;
        options.fits(clump).map_err(refused)?;
        let receiver = UdpReceiver::open(options).map_err(refused)?;
        let sender = UdpSender::open(options).map_err(refused)?;
        let sources = &self.channels.sources;
        if self.options.scheduling.idle.rests() {
            sources.add_receiving(receiver.socket()).map_err(kernel)?;
            sources.add_sending(sender.socket()).map_err(kernel)?;
        }
        let answer = Answer::Pseudowire {
            receives_at: receiver.local_address().map_err(kernel)?,
            sends_from: sender.local_address().map_err(kernel)?,
        };
        let end = || EndRecord {
            taken_by: Some(asker.connection),
            ..EndRecord::default()
        };
        let (ends, shown) = ([end(), end()], [Arc::default(), Arc::default()]);
        let record = &mut self.ports[usize::from(port.0)];
        record.receive.taken_by = Some(asker.connection);
        record.transmit.taken_by = Some(asker.connection);
        let [receive, transmit] = ends.each_ref().map(|end| Arc::clone(&end.counters));
        let [receive_shown, transmit_shown] = shown.each_ref().map(Arc::clone);
        let pending = Pending::Pseudowire {
            asker,
            port,
            ends,
            shown,
            answer,
        };
        let receiver = ReceiveEnd::Udp(Box::new(receiver), receive_shown);
        let sender = TransmitEnd::Udp(Box::new(sender), transmit_shown);
        self.post(pending, |ticket| HostCommand::Port {
            ticket,
            port,
            ends: [
                Some(PortEnd::Receive(receiver, receive)),
                Some(PortEnd::Transmit(sender, transmit)),
            ],
        });
        Ok(())
    }

    /// Has a port receive nothing and drop what it transmits, whatever was there before.
    pub(super) fn unlink(&mut self, asker: Asker, port: PortIndex) -> Handled {
        self.ensure_free(asker, port)?;
        let line = EndRecord::default();
        let counters = Arc::clone(&line.counters);
        let pending = Pending::Unlink { asker, port, line };
        self.post(pending, |ticket| HostCommand::Port {
            ticket,
            port,
            ends: [Some(PortEnd::Silence), Some(PortEnd::DeadLine(0, counters))],
        });
        Ok(())
    }

    /// Whether nobody else who still lives has an end of `port`.
    fn ensure_free(&self, asker: Asker, port: PortIndex) -> Handled {
        let record = self.port(port)?;
        let others = |end: &EndRecord| {
            let owner = end.taken_by.filter(|id| *id != asker.connection);
            owner.is_some_and(|id| self.connections.contains_key(&id))
        };
        match others(&record.receive) || others(&record.transmit) {
            true => Err(ControlError::PortTaken),
            false => Ok(()),
        }
    }

    pub(super) fn report_pseudowire(&mut self, asker: Asker, port: PortIndex) -> Handled {
        let report = self.port(port)?.pseudowire_report();
        let report = report.ok_or(ControlError::NotYours)?;
        let answer = Answer::PseudowireReport(report);
        self.reply(asker, Ok(answer), Enclosed::Nothing);
        Ok(())
    }

    /// Draws faults and hands them to the firmware thread.
    pub(super) fn faults(
        &mut self,
        asker: Asker,
        port: PortIndex,
        rates: Option<FaultRates>,
    ) -> Handled {
        self.port(port)?;
        let index = usize::from(port.0);
        let config = self.options.config.ports.get(index);
        let format = config.ok_or(ControlError::NotYours)?.format;
        let (counters, faults) = match rates {
            None => (None, None),
            Some(rates) => {
                let list = rates.draw(format).ok_or(ControlError::TooManyFaults)?;
                let line = FaultyLine::new(format, list);
                let counters = Arc::new(Shown::default());
                let faults = PortFaults {
                    line,
                    counters: Arc::clone(&counters),
                };
                (Some(counters), Some(Box::new(faults)))
            }
        };
        let pending = Pending::Faults {
            asker,
            port,
            counters,
        };
        self.post(pending, |ticket| HostCommand::Faults {
            ticket,
            port,
            faults,
        });
        Ok(())
    }

    pub(super) fn report_faults(&mut self, asker: Asker, port: PortIndex) -> Handled {
        let counters = self.port(port)?.faults.as_ref();
        let counts = counters.ok_or(ControlError::NotYours)?.read();
        let answer = Answer::FaultReport(counts);
        self.reply(asker, Ok(answer), Enclosed::Nothing);
        Ok(())
    }

    pub(super) fn port(&self, port: PortIndex) -> Result<&PortRecord, ControlError> {
        let record = self.ports.get(usize::from(port.0));
        record.ok_or(ControlError::NotYours)
    }
}
