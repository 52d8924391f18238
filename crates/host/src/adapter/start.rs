use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use cellgate_core::adapter::{Adapter, Config, PortStats, Refusal};
use cellgate_core::keeper::{Keeper, Scheduling};
use cellgate_shm::{AdapterPage, Rouser, wake_descriptor};

use super::board::{BoardChannels, HostBoard};
use super::firmware::{self, Firmware};
use super::ports::{Port, Ports};
use super::rest::Rester;
use super::service::{Service, ServiceChannels};
use super::sources::{Source, Sources};
use super::wake::ring;
use super::wakers::{FirmwareCpu, Wakers};
use super::{AdapterError, AdapterOptions};
use crate::clock::MonotonicClock;
use crate::gap::Gaps;
use crate::link::{QueueCounters, Shown};
use crate::place::Entrance;
use crate::sys::{FIRMWARE, avoid_cpu, lock_memory, name_thread, note_wake_up, schedule};

/// Runs an adapter that is controlled over `control`: the firmware in a thread of its own, the
/// service in the calling thread, until its end is asked for or nobody is left to ask.
///
/// # Errors
/// The configuration is refused, or the kernel is out of descriptors or threads.
pub fn serve(options: AdapterOptions, control: OwnedFd) -> Result<(), AdapterError> {
    let listener = options.listen.as_deref();
    let listener = listener
        .map(|path| Entrance::make(path, 0o600, (None, None)))
        .transpose()?;
    // The keeper's orders, and a change of the service's own for each port.
    let orders = Keeper::ORDERS_MAX + Config::PORTS_MAX;
    let (command_sender, commands) = sync_channel(orders);
    let (completion_sender, completions) = sync_channel(orders);
    let posted = Arc::new(AtomicU64::new(0));
    let wake = Arc::new(wake_descriptor().map_err(std::io::Error::other)?);
    let cpu = Arc::new(FirmwareCpu::unknown());
    // Clients that come and go on their way included.
    let clients = usize::from(options.config.attachments) + Keeper::ORDERS_MAX;
    let gaps = Arc::new(Gaps::with_clients(options.gap_threshold_ns, clients));
    let rests = options.scheduling.idle.rests();
    let (page, file) = AdapterPage::create(rests).map_err(std::io::Error::other)?;
    let sources = Sources::new(file, clients)?;
    let (bell, rouse) = sources.bell(Source::Service)?;
    let rouser = Rouser::open(rouse).map_err(std::io::Error::other)?;
    let stop = Arc::new(AtomicBool::new(false));
    let ports = options.config.ports.iter();
    let ports: Vec<Port> = ports.map(|_| Port::default()).collect();
    let lines = ports
        .iter()
        .map(|port| {
            (
                Arc::clone(&port.transmit.counters),
                Arc::clone(&port.strays),
            )
        })
        .collect();
    let channels = BoardChannels {
        commands,
        posted: Arc::clone(&posted),
        completions: completion_sender,
        service: Arc::clone(&wake),
        cpu: Arc::clone(&cpu),
    };
    let (thread, scheduling) = start_firmware(
        &options,
        lines,
        channels,
        (page, Arc::clone(&sources)),
        Arc::clone(&gaps),
        Arc::clone(&stop),
    )?;
    if let Some(cpu) = scheduling.pinned {
        avoid_cpu(cpu);
    }
    let channels = ServiceChannels {
        commands: command_sender,
        posted,
        completions,
        wake,
        sources,
        rouser,
        _bell: bell,
    };
    let wakers = Wakers::new(cpu, scheduling.pinned);
    let mut service = Service::new(
        options,
        scheduling,
        gaps,
        channels,
        wakers,
        Ports(ports),
        listener,
    );
    // The first connection always finds room.
    let _ = service.adopt(control.into(), true);
    let served = service.run(|| thread.is_finished());
    let ended = thread.is_finished();
    stop.store(true, Ordering::Relaxed);
    service.rouse();
    let joined = thread.join();
    service.meetings.end_all();
    if let Some(listener) = service.listener.take() {
        listener.remove();
    }
    match joined {
        Ok(firmware) if !ended => drop(firmware),
        _ => return Err(AdapterError::Firmware),
    }
    Ok(served?)
}

/// Makes the adapter in its own thread, so that its memory is near its CPU; comes back when it
/// runs, or was refused.
fn start_firmware(
    options: &AdapterOptions,
    lines: Vec<(Arc<QueueCounters>, Arc<Shown<PortStats>>)>,
    channels: BoardChannels,
    (page, sources): (AdapterPage, Arc<Sources>),
    gaps: Arc<Gaps>,
    stop: Arc<AtomicBool>,
) -> Result<(JoinHandle<Option<Firmware>>, Scheduling), AdapterError> {
    let (started, starting) = sync_channel::<Result<Scheduling, Refusal>>(1);
    let (config, request) = (options.config.clone(), options.scheduling.clone());
    let (known, headroom_percent) = (options.wake_ups.clone(), options.headroom_percent);
    let thread = Builder::new().name("firmware".to_owned()).spawn(move || {
        let _bell = RingAtEnd(Arc::clone(&channels.service));
        name_thread(FIRMWARE);
        let mut scheduling = schedule(&request);
        note_wake_up(&mut scheduling, &known, headroom_percent);
        let yields = scheduling.yields;
        let rester = request.idle.rests().then(|| {
            let (linger_ns, gap_max_ns) = (request.linger_ns, config.gap_max_ns);
            Rester::new(&scheduling, linger_ns, gap_max_ns, page, sources)
        });
        let board = HostBoard::new(&config, lines, channels);
        let adapter = match Adapter::new(config, MonotonicClock.now()) {
            Ok(adapter) => adapter,
            Err(refusal) => {
                let _ = started.send(Err(refusal));
                return None;
            }
        };
        if request.lock_memory {
            lock_memory(&mut scheduling);
        }
        if started.send(Ok(scheduling)).is_err() {
            return None;
        }
        Some(firmware::run(
            (adapter, board),
            &gaps,
            &stop,
            yields,
            rester,
        ))
    })?;
    match starting.recv() {
        Ok(Ok(scheduling)) => Ok((thread, scheduling)),
        Ok(Err(refusal)) => Err(refusal.into()),
        Err(_) => Err(AdapterError::Firmware),
    }
}

/// Tells the service thread when the firmware thread ends, however it ends.
struct RingAtEnd(Arc<OwnedFd>);

impl Drop for RingAtEnd {
    fn drop(&mut self) {
        ring(&self.0);
    }
}
