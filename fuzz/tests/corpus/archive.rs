//! The inputs of one target, as their archive has them: a gzipped tar in its normal form.
//!
//! `fuzz/run` writes the normal form. An archive says nothing of who made it and when, so two
//! archives differ only if their inputs do.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;
use tar::{Archive, Entry, EntryType};

pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) octets: Vec<u8>,
}

/// The inputs of `target`, sorted by name.
pub(crate) fn inputs(target: &str) -> Vec<Input> {
    let archive = read(target);
    unpacked(&archive).unwrap_or_else(|what| panic!("{target}: {what}"))
}

pub(crate) fn read(target: &str) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(format!("{target}.tar.gz"));
    fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The inputs of an archive, or what about it is not normal.
pub(crate) fn unpacked(archive: &[u8]) -> Result<Vec<Input>, String> {
    let mut gzip = GzDecoder::new(archive);
    let mut tar = Vec::new();
    gzip.read_to_end(&mut tar).map_err(|e| e.to_string())?;
    let header = gzip.header().ok_or("no gzip header")?;
    let bare = header.mtime() == 0 && header.filename().is_none() && header.comment().is_none();
    if !bare || !gzip.into_inner().is_empty() {
        return Err("the gzip header has a time or a name, or something follows".to_string());
    }
    let mut inputs: Vec<Input> = Vec::new();
    let mut tar = Archive::new(&tar[..]);
    for entry in tar.entries().map_err(|e| e.to_string())? {
        let input = input(entry).map_err(|e| e.to_string())?;
        if inputs.last().is_some_and(|last| last.name >= input.name) {
            return Err(format!("{} is not in order", input.name));
        }
        inputs.push(input);
    }
    Ok(inputs)
}

fn input(entry: io::Result<Entry<'_, &[u8]>>) -> io::Result<Input> {
    let mut entry = entry?;
    let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let header = entry.header();
    let text = |field: Option<&[u8]>| field.unwrap_or_default().is_empty();
    let normal = header.as_ustar().is_some()
        && header.entry_type() == EntryType::Regular
        && (header.mode()?, header.mtime()?) == (0o644, 0)
        && (header.uid()?, header.gid()?) == (0, 0)
        && text(header.username_bytes())
        && text(header.groupname_bytes())
        && !name.contains('/');
    if !normal {
        let what = "has a time, an owner, a mode or a folder, or is no file";
        return Err(io::Error::other(format!("{name} {what}")));
    }
    let mut octets = Vec::new();
    entry.read_to_end(&mut octets)?;
    Ok(Input { name, octets })
}
