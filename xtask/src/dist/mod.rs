//! `cargo xtask dist`: packages, from the lock file and without a network.

mod deb;
mod program;
mod python;
mod stage;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use deb::Package;
use program::Program;
use stage::Stage;

/// What is made, and what is left out.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder that gets the packages [default: dist in the target directory]
    #[arg(long)]
    out: Option<PathBuf>,
    /// The version that packages for Debian say, instead of the command's
    #[arg(long, value_name = "VERSION")]
    package_version: Option<String>,
    /// Features of the command beside its own, as another release build has them
    #[arg(long, value_name = "LIST")]
    features: Vec<String>,
    /// What not to make: python (wheel and sdist), static (the tarball's program by musl; the
    /// tarball has the one of the package then), libraries, tarball
    #[arg(long, value_name = "PART")]
    skip: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Python,
    Static,
    Libraries,
    Tarball,
}

/// Where sources are, and where things are made.
struct Places {
    /// The workspace.
    root: PathBuf,
    /// Cargo's target directory.
    target: PathBuf,
    /// What is put together, by package.
    work: PathBuf,
    out: PathBuf,
    /// Of packages for Debian, with its revision.
    version: String,
}

impl Places {
    fn of(args: &Args) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = root.canonicalize().context("the workspace")?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => std::path::absolute(target)?,
            None => root.join("target"),
        };
        let out = args.out.clone().unwrap_or_else(|| target.join("dist"));
        let version = args.package_version.as_deref();
        let version = version.unwrap_or(env!("CARGO_PKG_VERSION"));
        Ok(Self {
            work: target.join("xtask-dist"),
            out: std::path::absolute(out)?,
            version: format!("{version}-1"),
            root,
            target,
        })
    }

    /// A file of the sources.
    fn source(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// Makes everything; prints each file that was made.
pub(crate) fn make(args: &Args) -> anyhow::Result<()> {
    let places = Places::of(args)?;
    fs::create_dir_all(&places.out).with_context(|| places.out.display().to_string())?;
    let skips = |part| args.skip.contains(&part);
    let program = Program::build(&places, &args.features, None)?;
    let mut stage = Stage::new(&places, "cellgate")?;
    command(&places, &mut stage, &program)?;
    Package::new(&places, "cellgate", stage).make()?;
    if !skips(Part::Libraries) {
        libraries(&places)?;
    }
    if !skips(Part::Tarball) {
        let program = match skips(Part::Static) {
            true => program,
            false => Program::statically(&places, &args.features)?.unwrap_or(program),
        };
        tarball::make(&places, &program)?;
    }
    if !skips(Part::Python) {
        python::make(&places)?;
    }
    let file = places.out.join("Containerfile");
    fs::copy(places.source("packaging/Containerfile"), &file).context("Containerfile")?;
    println!("{}", file.display());
    Ok(())
}

/// All that the command's package has.
fn command(places: &Places, stage: &mut Stage, program: &Program) -> anyhow::Result<()> {
    stage.split("usr/bin/cellgate", &program.file, 0o755)?;
    stage.beside_command("usr/share")?;
    let completions = places.work.join("completions");
    crate::completions::write(&completions)?;
    for (name, to) in [
        ("cellgate", "usr/share/bash-completion/completions/cellgate"),
        ("_cellgate", "usr/share/zsh/vendor-completions/_cellgate"),
        (
            "cellgate.fish",
            "usr/share/fish/vendor_completions.d/cellgate.fish",
        ),
    ] {
        stage.file(to, &completions.join(name), 0o644)?;
    }
    let units = places.source("docs/systemd");
    for unit in stage::UNITS {
        let to = format!("usr/lib/systemd/system/{unit}");
        stage.file(&to, &units.join(unit), 0o644)?;
    }
    for (name, to) in [
        (
            "docs/systemd/cellgate.sysusers",
            "usr/lib/sysusers.d/cellgate.conf",
        ),
        ("docs/systemd/cellgate.toml", "etc/cellgate.toml"),
        (
            "packaging/needrestart.conf",
            "etc/needrestart/conf.d/cellgate.conf",
        ),
    ] {
        stage.file(to, &places.source(name), 0o644)?;
    }
    stage.documents("cellgate")
}

/// The C library: what programs need to run, and what it takes to write them. `install.sh` builds
/// it and knows what belongs to it.
fn libraries(places: &Places) -> anyhow::Result<()> {
    let multiarch = printed(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
    let installed = places.work.join("installed");
    stage::empty(&installed)?;
    let library = format!("usr/lib/{}", multiarch.trim());
    let mut install = Command::new(places.source("crates/capi/install.sh"));
    install
        .env("PREFIX", "/usr")
        .env("LIBDIR", format!("/{library}"))
        .env("DESTDIR", &installed)
        .env("CARGO_NET_OFFLINE", "true");
    printed(&mut install)?;
    let mut run = Stage::new(places, "libcellgate")?;
    let mut develop = Stage::new(places, "libcellgate-dev")?;
    for file in stage::files(&installed)? {
        let from = installed.join(&file);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let to = file.to_str().context("a name that is text")?;
        if name.starts_with("libcellgate.so.") {
            match from.is_symlink() {
                true => run.link(to, &from)?,
                false => run.split(to, &from, 0o644)?,
            }
        } else if from.is_symlink() {
            develop.link(to, &from)?;
        } else if to.starts_with("usr/share/man/") {
            develop.page(to, &fs::read(&from)?)?;
        } else if to.ends_with(".a") {
            develop.archive(to, &from)?;
        } else {
            develop.file(to, &from, 0o644)?;
        }
    }
    run.documents("libcellgate0.1")?;
    develop.documents("libcellgate-dev")?;
    Package::new(places, "libcellgate", run)
        .with_shlibs("libcellgate 0.1 libcellgate0.1\n")
        .make()?;
    Package::new(places, "libcellgate-dev", develop).make()
}

/// Runs a command, which is to succeed.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status();
    let status = status.with_context(|| format!("{} does not start", shown(command)))?;
    anyhow::ensure!(status.success(), "{}: {status}", shown(command));
    Ok(())
}

/// What a command prints, which is to succeed.
fn printed(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("{} does not start", shown(command)))?;
    anyhow::ensure!(
        output.status.success(),
        "{}: {}",
        shown(command),
        output.status
    );
    String::from_utf8(output.stdout).context("text")
}

fn shown(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Cargo as it runs this.
fn cargo(places: &Places) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(&places.root);
    command
}
