use super::plan::Circumstances;
use super::{Admission, AdmissionConfig, CpuLaw, On, Open, Quota, Refused, ServerConfig};
use crate::adapter::PortIndex;
use crate::contract::{CellRate, TrafficContract};

/// What a server promises whose CPUs cost nothing and whose users have no quotas: of the
/// connections that it refuses, no server of this configuration has all.
#[derive(Clone, Debug)]
pub struct Possible {
    config: ServerConfig,
    admission: Admission,
}

impl Possible {
    /// Nothing is promised, and there is no interface.
    pub fn new(config: ServerConfig) -> Self {
        let admission = AdmissionConfig {
            adapter_law: CpuLaw::default(),
            worker_law: CpuLaw::default(),
            quota: Quota::NONE,
            quotas: Default::default(),
            ..config.admission.clone()
        };
        let uid = config.uid;
        Self {
            config,
            admission: Admission::new(admission, uid),
        }
    }

    /// An interface of this rate each way.
    pub fn add_line(&mut self, port: On<PortIndex>, line: CellRate) {
        self.admission.add_line(port, line.cell_s());
    }

    /// Promises a connection on the interface of `port`, whose rate is `line`.
    ///
    /// # Errors
    /// As a server would refuse it; nothing is offered instead.
    pub fn admit(
        &mut self,
        port: On<PortIndex>,
        line: CellRate,
        open: &Open,
    ) -> Result<(), Refused> {
        let contract: TrafficContract = open.contract.parse()?;
        let circumstances = Circumstances {
            config: &self.config,
            adapter: self.config.adapter(port.adapter),
            admission: self.admission.config(),
            open,
            line,
            worker: false,
        };
        let plan = circumstances.plan(&contract)?;
        let _kept = self.admission.admit(self.config.uid, port, plan.demand)?;
        Ok(())
    }
}
