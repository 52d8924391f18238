use super::plan::{Circumstances, Plan};
use super::{
    AdapterIndex, Admission, AdmissionConfig, Buffers, CpuLaw, DelayBounds, On, Open, Precedence,
    Quota, Refused, ServerConfig,
};
use crate::adapter::{PortIndex, Terms};
use crate::contract::{CellRate, TrafficContract};

/// What a server promises whose CPUs cost nothing and whose users have no quotas: of the
/// connections that it refuses, no server of this configuration has all.
#[derive(Clone, Debug)]
pub struct Possible {
    config: ServerConfig,
    admission: Admission,
}

/// The connection that a server makes of a contract, whether or not there is room for it.
#[derive(Clone, Copy, Debug)]
pub struct Prospect {
    /// As the adapter would serve it.
    pub terms: Terms,
    pub buffers: Buffers,
    /// Octets of memory that would be charged to it.
    pub memory: u64,
    /// How long its PDUs would take at most.
    pub bound: DelayBounds,
    /// How early a PDU may come by its peak rate, and by its sustained rate, in nanoseconds; none:
    /// the rate does not judge.
    pub policing_ns: [Option<u64>; 2],
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
        let plan = self.plan(port.adapter, line, open)?;
        let _kept = self.admission.admit(self.config.uid, port, plan.demand)?;
        Ok(())
    }

    /// The prospect of a connection on an interface of the rate `line`, whose other guaranteed
    /// connections may send so much before it.
    ///
    /// # Errors
    /// The contract cannot be served, however much room there is.
    pub fn prospect(
        &self,
        adapter: AdapterIndex,
        line: CellRate,
        others: Precedence,
        open: &Open,
    ) -> Result<Prospect, Refused> {
        let plan = self.plan(adapter, line, open)?;
        let clump_cells = self.config.adapter(adapter).clump_cells;
        Ok(Prospect {
            terms: plan.terms,
            buffers: plan.buffers(),
            memory: plan.demand.memory,
            bound: plan.bound(others),
            policing_ns: plan.terms.policing_ns(clump_cells),
        })
    }

    fn plan(&self, adapter: AdapterIndex, line: CellRate, open: &Open) -> Result<Plan, Refused> {
        let contract: TrafficContract = open.contract.parse()?;
        let circumstances = Circumstances {
            config: &self.config,
            adapter: self.config.adapter(adapter),
            admission: self.admission.config(),
            open,
            line,
            worker: false,
            room: None,
        };
        circumstances.plan(&contract)
    }
}
