//! Where the daemon is.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The control socket that is used where none is named: `$CELLGATE_SOCKET`, else the machine's
/// `/run/cellgate/control.sock`, else, where that is not there, this user's: in
/// `$XDG_RUNTIME_DIR/cellgate`, or where that has none, in `cellgate-UID` in the temporary
/// directory, if that directory is this user's own and nobody else can write there.
pub fn socket_path() -> PathBuf {
    let machine = Path::new("/run/cellgate/control.sock");
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    first(machine, &std::env::temp_dir(), named)
}

fn first(machine: &Path, temporary: &Path, named: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    if let Some(path) = named("CELLGATE_SOCKET") {
        return path.into();
    }
    if machine.exists() {
        return machine.to_owned();
    }
    let runtime = named("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("cellgate/control.sock"));
    if let Some(user) = runtime.filter(|user| user.exists()) {
        return user;
    }
    let directory = temporary.join(format!("cellgate-{}", geteuid().as_raw()));
    let user = directory.join("control.sock");
    match is_own(&directory) && user.exists() {
        true => user,
        false => machine.to_owned(),
    }
}

/// Whether a directory is this user's own, and no other can write there: anybody can make one in
/// the temporary directory.
fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_first_place_with_a_socket_is_taken() {
        let all = std::env::temp_dir().join(format!("cellgate-place-{}", std::process::id()));
        let own = all.join(format!("cellgate-{}", geteuid().as_raw()));
        let runtime = all.join("runtime");
        let machine = all.join("machine.sock");
        for directory in [&own, &runtime.join("cellgate")] {
            fs::create_dir_all(directory).unwrap();
            fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        }
        let xdg = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| runtime.clone().into());
        let find = || first(&machine, &all, xdg);
        assert_eq!(find(), machine, "there is none");
        let in_own = own.join("control.sock");
        File::create(&in_own).unwrap();
        assert_eq!(find(), in_own);
        assert_eq!(first(&machine, &all, |_| None), in_own);
        // Somebody else could have put one there.
        for mode in [0o775, 0o757] {
            fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
            assert_eq!(find(), machine, "{mode:o}");
        }
        fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
        let elsewhere = all.join("elsewhere");
        fs::rename(&own, &elsewhere).unwrap();
        symlink(&elsewhere, &own).unwrap();
        assert_eq!(find(), machine, "a link");
        fs::remove_file(&own).unwrap();
        fs::rename(&elsewhere, &own).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(&own, Some(65_534), None).unwrap();
            assert_eq!(find(), machine, "another user's");
            println!("ran place_of_another");
        }
        let in_runtime = runtime.join("cellgate/control.sock");
        File::create(&in_runtime).unwrap();
        assert_eq!(find(), in_runtime);
        File::create(&machine).unwrap();
        assert_eq!(find(), machine);
        let everywhere = first(&machine, &all, |_| Some("x.sock".into()));
        assert_eq!(everywhere, Path::new("x.sock"));
        fs::remove_dir_all(&all).unwrap();
    }
}
