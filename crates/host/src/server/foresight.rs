//! What can be known of a server's places and CPU before it uses them.

use std::io;
use std::path::{Path, PathBuf};

use cellgate_core::server::{AdapterSection, ServerSection};
use rustix::fs::{FileType, fstatvfs, stat};

use super::Config;
use super::listener::state_dir_default;
use super::start::CONTROL_SOCKET;
use crate::place::Directory;
use crate::sys::{cpus_of_machine, has_cpu};

/// Octets that the calibration needs, at least.
const ROOM: u64 = 64 << 10;

/// What a server with this configuration would meet on this machine and could not use. Another
/// user may see less of the file system than the server's own.
pub fn foresee(config: &Config) -> Vec<String> {
    let mut found = foresee_places(&config.server);
    let adapters = config.adapters.iter();
    found.extend(adapters.filter_map(|adapter| of_cpu(adapter, cpus_of_machine())));
    found
}

/// The same in the file system alone.
pub(crate) fn foresee_places(section: &ServerSection) -> Vec<String> {
    let directory = section.state_dir.as_ref().map(PathBuf::from);
    let directory = directory.unwrap_or_else(state_dir_default);
    let socket = section.socket.as_ref().map(PathBuf::from);
    let socket = socket.unwrap_or_else(|| directory.join(CONTROL_SOCKET));
    let found = [of_directory(&directory), of_socket(&socket, &directory)];
    found.into_iter().flatten().collect()
}

/// The CPU that the adapter is to have, where `there` are those of the machine.
fn of_cpu(section: &AdapterSection, there: Option<String>) -> Option<String> {
    let cpu = section.cpu.filter(|_| section.pin)?;
    let there = there.filter(|there| !has_cpu(there, cpu))?;
    Some(format!("cpu = {cpu}: this machine has CPUs {there}"))
}

fn of_directory(path: &Path) -> Option<String> {
    let shown = path.display();
    if path.is_symlink() {
        return Some(format!(
            "{shown} is a link: name the directory that it leads to"
        ));
    }
    let directory = match Directory::open(path) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("{shown}: {error}")),
    };
    if stat(path).is_ok_and(|found| found.st_mode & 0o022 != 0) {
        return Some(format!(
            "{shown} can be written by others: chmod go-w {shown}"
        ));
    }
    let room = fstatvfs(&directory).ok()?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    (free < ROOM).then(|| {
        format!("{shown} has {free} octets left: a calibration needs some {ROOM}, and is not kept")
    })
}

fn of_socket(path: &Path, directory: &Path) -> Option<String> {
    let shown = path.display();
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if parent.is_some_and(|parent| parent != directory && !parent.is_dir()) {
        return Some(format!("{shown}: there is no such directory"));
    }
    let found = rustix::fs::lstat(path).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    (!is_socket).then(|| format!("{shown} is no socket: remove it, or name another socket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_the_machine_lacks_is_told() {
        let told = |cpu, pin, there: Option<&str>| {
            let section = AdapterSection {
                cpu,
                pin,
                ..AdapterSection::default()
            };
            of_cpu(&section, there.map(str::to_owned))
        };
        let note = "cpu = 99: this machine has CPUs 0-1";
        assert_eq!(told(Some(99), true, Some("0-1")).as_deref(), Some(note));
        assert_eq!(told(Some(1), true, Some("0-1")), None);
        assert_eq!(told(None, true, Some("0-1")), None);
        assert_eq!(told(Some(99), false, Some("0-1")), None, "it is not used");
        assert_eq!(told(Some(99), true, None), None, "nobody knows");
    }
}
