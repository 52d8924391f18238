//! A directory as what a server keeps its files in.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};

use cellgate_core::server::Disk;
use rustix::fs::{AtFlags, OFlags, fsync, renameat, unlinkat};

use super::directory::Directory;

impl Disk for Directory {
    type Error = io::Error;

    fn read(&mut self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(OsStr::new(name), OFlags::RDONLY, 0)?;
        let mut octets = Vec::new();
        File::from(file).take(max).read_to_end(&mut octets)?;
        Ok(octets)
    }

    fn create(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_file(OsStr::new(name), flags, 0o600)?;
        let mut file = File::from(file);
        file.write_all(octets)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        renameat(&*self, from, &*self, to)?;
        // The file is whole without it; after a power failure it may be the former one.
        let _ = self
            .open_file(OsStr::new("."), OFlags::RDONLY | OFlags::DIRECTORY, 0)
            .map(fsync);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&*self, name, AtFlags::empty())?)
    }
}
