//! The command, built from the lock file.

use std::path::PathBuf;
use std::process::Command;

use super::{Places, cargo, printed, run};

/// The target whose programs need nothing of the machine that they run on.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The command as cargo has built it.
pub(super) struct Program {
    pub(super) file: PathBuf,
    /// For which target it was named; none: this machine's.
    pub(super) target: Option<&'static str>,
}

impl Program {
    /// Builds it, of what is fetched.
    pub(super) fn build(
        places: &Places,
        features: &[String],
        target: Option<&'static str>,
    ) -> anyhow::Result<Self> {
        let mut build = cargo(places);
        build
            .args(["build", "--release", "--locked", "--offline"])
            .args(["-p", "cellgate-cli", "--bin", "cellgate"]);
        for feature in features {
            // As a build of several packages names them: nothing is built twice.
            build.args(["--features", &format!("cellgate-cli/{feature}")]);
        }
        let mut folder = places.target.clone();
        if let Some(target) = target {
            build.args(["--target", target]);
            folder.push(target);
        }
        run(&mut build)?;
        let file = folder.join("release/cellgate");
        Ok(Self { file, target })
    }

    /// Builds one that is linked statically; none: this toolchain has no such target.
    pub(super) fn statically(places: &Places, features: &[String]) -> anyhow::Result<Option<Self>> {
        let libraries = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", STATIC])
            .current_dir(&places.root)
            .stderr(std::process::Stdio::inherit())
            .output();
        let libraries = libraries.ok().filter(|found| found.status.success());
        let libraries = libraries.and_then(|found| String::from_utf8(found.stdout).ok());
        if !libraries.is_some_and(|path| PathBuf::from(path.trim()).is_dir()) {
            eprintln!("no target {STATIC}: the tarball's program needs this machine's C library");
            return Ok(None);
        }
        Self::build(places, features, Some(STATIC)).map(Some)
    }

    /// What a tarball of it is called by.
    pub(super) fn platform(&self) -> anyhow::Result<String> {
        if let Some(target) = self.target {
            return Ok(target.to_owned());
        }
        let version = printed(Command::new("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        Ok(host.unwrap_or("linux").to_owned())
    }
}
