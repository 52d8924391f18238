//! Packages for Debian: cargo-deb makes each of a stage, by a manifest that lists its files.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::stage::{self, Stage};
use super::{Places, cargo, printed, run};

pub(super) struct Package<'a> {
    places: &'a Places,
    /// The folder of `packaging` that says what it is.
    name: &'static str,
    stage: Stage,
    shlibs: Option<&'static str>,
}

impl<'a> Package<'a> {
    pub(super) const fn new(places: &'a Places, name: &'static str, stage: Stage) -> Self {
        Self {
            places,
            name,
            stage,
            shlibs: None,
        }
    }

    /// The line that tells other packages of its library.
    pub(super) const fn with_shlibs(mut self, shlibs: &'static str) -> Self {
        self.shlibs = Some(shlibs);
        self
    }

    /// Makes the package, and that of its symbols if there are any.
    pub(super) fn make(self) -> anyhow::Result<()> {
        let folder = self.places.work.join(self.name);
        self.manifest(&folder)?;
        let mut deb = cargo(self.places);
        deb.args(["deb", "--no-build", "--no-strip", "--offline", "-q"])
            .arg("--manifest-path")
            .arg(folder.join("Cargo.toml"))
            .args(["--deb-version", &self.places.version, "-o"])
            .arg(&self.places.out)
            .env("CARGO_TARGET_DIR", folder.join("target"));
        let made = printed(&mut deb).context("cargo deb (cargo install cargo-deb)")?;
        let made = PathBuf::from(made.lines().last().context("cargo deb names its file")?);
        if let Some(shlibs) = self.shlibs {
            add(&made, &folder.join("made"), shlibs)?;
        }
        println!("{}", made.display());
        match self.stage.build_ids.is_empty() {
            true => Ok(()),
            false => self.symbols(&made),
        }
    }

    /// The manifest of a package without code, whose files are those of the stage.
    fn manifest(&self, folder: &Path) -> anyhow::Result<()> {
        let said = self.stage.sources.join("deb.toml");
        let said = fs::read_to_string(&said).with_context(|| said.display().to_string())?;
        let said = said.replace("${version}", &self.places.version);
        let mut text = format!(
            "[package]\nname = \"{}\"\nversion = \"{}\"\nedition = \"2024\"\n\
             description = \"{}\"\nlicense = \"MIT OR Apache-2.0\"\nhomepage = \"{}\"\n\n\
             [lib]\npath = \"lib.rs\"\n\n[workspace]\n\n[package.metadata.deb]\n{said}\
             preserve-symlinks = true\nassets = [\n",
            self.name,
            env!("CARGO_PKG_VERSION"),
            about(self.name),
            env!("CARGO_PKG_REPOSITORY"),
        );
        for file in stage::files(&self.stage.folder)? {
            let mode = fs::symlink_metadata(self.stage.folder.join(&file))?;
            let mode = mode.permissions().mode() & 0o777;
            let file = file.to_str().context("a name that is text")?;
            writeln!(text, "    [\"files/{file}\", \"{file}\", \"{mode:o}\"],")?;
        }
        text += "]\n";
        for script in ["postinst", "prerm", "postrm", "triggers"] {
            let from = self.stage.sources.join(script);
            if from.exists() {
                fs::copy(&from, folder.join(script)).context(script)?;
            }
        }
        fs::write(folder.join("lib.rs"), "")?;
        fs::write(folder.join("Cargo.toml"), text).context("a manifest")
    }

    /// The package of what a debugger reads. cargo-deb has no words for its fields.
    fn symbols(&self, of: &Path) -> anyhow::Result<()> {
        let field = |name: &str| -> anyhow::Result<String> {
            let text = printed(Command::new("dpkg-deb").arg("-f").arg(of).arg(name))?;
            Ok(text.trim().to_owned())
        };
        let (package, version) = (field("Package")?, field("Version")?);
        let (architecture, maintainer) = (field("Architecture")?, field("Maintainer")?);
        let folder = &self.stage.symbols;
        let doc = folder.join("usr/share/doc");
        fs::create_dir_all(&doc)?;
        std::os::unix::fs::symlink(&package, doc.join(format!("{package}-dbgsym")))?;
        let size: u64 = (stage::files(folder)?.iter())
            .filter_map(|file| fs::symlink_metadata(folder.join(file)).ok())
            .map(|found| found.len().div_ceil(1_024))
            .sum();
        let control = format!(
            "Package: {package}-dbgsym\nSource: cellgate\nVersion: {version}\n\
             Auto-Built-Package: debug-symbols\nArchitecture: {architecture}\n\
             Maintainer: {maintainer}\nInstalled-Size: {size}\nDepends: {package} (= {version})\n\
             Section: debug\nPriority: optional\nDescription: debug symbols for {package}\n\
             Build-Ids: {}\n",
            self.stage.build_ids.join(" ")
        );
        let named = format!("{package}-dbgsym_{version}_{architecture}.deb");
        let made = self.places.out.join(named);
        fs::create_dir_all(folder.join("DEBIAN"))?;
        fs::write(folder.join("DEBIAN/control"), control)?;
        build(folder, &made)?;
        println!("{}", made.display());
        Ok(())
    }
}

/// The first line of a package's description.
fn about(name: &str) -> &'static str {
    match name {
        "libcellgate" => "connections with guaranteed rates over ATM: library",
        "libcellgate-dev" => "connections with guaranteed rates over ATM: development",
        _ => "real-time ATM host in user space",
    }
}

/// Adds to a package what cargo-deb does not write.
fn add(package: &Path, folder: &Path, shlibs: &str) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    run(Command::new("dpkg-deb").arg("-R").arg(package).arg(folder))?;
    fs::write(folder.join("DEBIAN/shlibs"), shlibs)?;
    build(folder, package)
}

fn build(folder: &Path, package: &Path) -> anyhow::Result<()> {
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--root-owner-group", "-Zxz", "--build"]);
    printed(deb.arg(folder).arg(package)).map(drop)
}
