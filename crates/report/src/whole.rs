//! Files that are there whole, or as they were.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Links on one way, as the kernel has it.
const LINKS_MAX: usize = 40;

/// Whether a path is `-`: standard input, or standard output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Makes a file that is written bit by bit; `-` is standard output.
pub fn create(path: &Path) -> io::Result<File> {
    match is_standard(path) {
        true => standard_output(),
        false => File::create(path),
    }
}

/// Standard output without a buffer of its own, behind what was printed before.
fn standard_output() -> io::Result<File> {
    let mut out = io::stdout().lock();
    out.flush()?;
    Ok(out.as_fd().try_clone_to_owned()?.into())
}

/// Puts `octets` in place of whatever file is at `path`. A link stays: the file that it leads to is
/// replaced, as an editor would. So do permissions, and the owner where this user may. What is no
/// file (a pipe, a terminal) is written to, and `-` is standard output.
///
/// # Errors
/// What was there is there still.
pub fn write_whole(path: &Path, octets: impl AsRef<[u8]>) -> io::Result<()> {
    if is_standard(path) {
        return standard_output()?.write_all(octets.as_ref());
    }
    let place = follow(path)?;
    let before = fs::metadata(&place).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        return fs::write(&place, octets);
    }
    let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let new = format!(".{}.{}.new", name.display(), std::process::id());
    let new = place.with_file_name(new);
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o666)
            .open(&new)?;
        if let Some(before) = before {
            // Root's alone to give away; what others write is theirs.
            let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
            let mode = fs::Permissions::from_mode(before.mode() & 0o777);
            file.set_permissions(mode)?;
        }
        file.write_all(octets.as_ref())?;
        file.sync_all()?;
        fs::rename(&new, &place)
    })();
    match &written {
        Ok(()) => {
            // The file is whole without it; after a power failure it may be the former one.
            let folder = place.parent().map(File::open);
            let _ = folder
                .transpose()
                .map(|folder| folder.map(|folder| folder.sync_all()));
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(_) => drop(fs::remove_file(&new)),
    }
    written
}

/// Where a file is, or would be, behind all links at its name.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&place) {
            Ok(target) => place = place.parent().unwrap_or(Path::new(".")).join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(Errno::LOOP.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_place_and_permissions() {
        let name = format!("cellgate-whole-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let at = |name: &str| directory.join(name);
        fs::write(at("file"), "before").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("later", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        // Whoever has the former file open still reads all of it.
        let reader = File::open(at("file")).unwrap();
        write_whole(&at("link"), "after").unwrap();
        write_whole(&at("dangling"), "new").unwrap();
        assert!(write_whole(&at("loop"), "x").is_err());
        assert_eq!(io::read_to_string(reader).unwrap(), "before");
        assert_eq!(fs::read(at("file")).unwrap(), b"after");
        assert_eq!(at("file").metadata().unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read(at("later")).unwrap(), b"new");
        assert!(at("link").is_symlink() && at("dangling").is_symlink());
        assert!(write_whole(&at("no/such"), "x").is_err());
        assert!(write_whole(&at("."), "x").is_err());
        write_whole(Path::new("/dev/null"), "x").unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 5);
        fs::remove_dir_all(&directory).unwrap();
    }
}
