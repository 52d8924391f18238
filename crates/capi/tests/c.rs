//! A C program over the library, compiled by this machine's compiler.

extern crate client as cellgate;

#[path = "../../client/tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::Daemon;

/// Who builds the library replaces what others run.
static BUILT: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    BUILT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the test was built: its profile's folder.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    folder.to_owned()
}

/// What a command printed, which succeeds; none if there is no such command.
fn printed(command: &mut Command) -> Option<String> {
    let output: Output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Builds the library, which tests do not link, and so are built without: where it is. By itself it
/// asks for fewer features of what it depends on than the workspace does, and all of that would be
/// compiled again: the command's crate, which has no library, is named along with it.
fn library() -> PathBuf {
    let folder = folder();
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "-p",
        "cellgate-capi",
        "-p",
        "cellgate-cli",
        "--lib",
    ]);
    build.arg("--target-dir");
    build.arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        build.arg("--release");
    }
    printed(&mut build).expect("cargo");
    folder
}

/// Compiles a program of `examples`; none if there is no compiler.
fn compiled(name: &str, at: &Path, flags: &[&str]) -> Option<Command> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    cc.arg(crate_dir.join(format!("examples/{name}.c")));
    cc.arg("-o").arg(at).args(flags);
    printed(&mut cc).map(|_| Command::new(at))
}

/// What a program of `examples` printed; none if there is no compiler.
fn run(name: &str, arguments: &[&str], daemon: &Daemon) -> Option<String> {
    let _alone = alone();
    let program = std::env::temp_dir().join(format!("cellgate-{name}-{}", std::process::id()));
    let library = library();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let from = format!("-L{}", library.display());
    let rpath = format!("-Wl,-rpath,{}", library.display());
    let mut command = compiled(name, &program, &[include, &from, "-lcellgate", &rpath])?;
    command
        .args(arguments)
        .env("CELLGATE_SOCKET", daemon.path());
    let printed = printed(&mut command);
    std::fs::remove_file(&program).unwrap();
    printed
}

const CROSSED: &str = "\
the server said no: not enough transmit bandwidth: 2000000 cells/s \
(768.0 Mbit/s) needed, 1000000 (384.0 Mbit/s) free; \
this would fit: cbr,aal5:pcr=1000000
copied, uu 7, clp 1
in place, 8 octets
again: no PDU of this number is held
submit: no space is borrowed
too long: the SDU is longer than the contract allows
copies: 1 of 2, 1 of 2
";

#[test]
fn a_c_program_sends_and_receives() {
    let daemon = Daemon::start();
    let Some(printed) = run("crossing", &["a.0.100", "b.0.100"], &daemon) else {
        println!("skipped capi_example: there is no cc");
        return;
    };
    assert_eq!(printed, CROSSED);
    println!("ran capi_example");
}

#[test]
fn a_c_program_asks_for_less_and_takes_what_is_offered() {
    let daemon = Daemon::start();
    let Some(printed) = run("offers", &["a.0.100", "b.0.100", "a.0.101"], &daemon) else {
        println!("skipped capi_offers: there is no cc");
        return;
    };
    let expected = "\
5000000 cells/s needed, 1000000 free
it would take cbr,aal5:pcr=1000000
it can grow to cbr,aal5:pcr=100000,max_sdu=2000
it is cbr,aal5:pcr=100000,max_sdu=2000
u v w and again v of 3
the adapter has sent 3 PDUs
";
    assert_eq!(printed, expected);
    println!("ran capi_offers");
}

/// Installs the library below `destdir`.
fn install(destdir: &Path) {
    let mut install = Command::new("sh");
    install.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/install.sh"));
    let folder = folder();
    let profile = match folder.ends_with("release") {
        true => "release",
        false => "dev",
    };
    install.env("CARGO", env!("CARGO")).env("PROFILE", profile);
    install.env("CARGO_TARGET_DIR", folder.parent().unwrap());
    install
        .env("DESTDIR", destdir)
        .env("PREFIX", "/opt/cellgate");
    for other in ["LIBDIR", "INCLUDEDIR", "MANDIR"] {
        install.env_remove(other);
    }
    printed(&mut install).expect("a shell");
}

#[test]
#[ignore = "compiles the library by itself: --ignored"]
fn an_installed_library_is_found_by_pkg_config() {
    const NAME: &str = "capi_install";
    let daemon = Daemon::start();
    let there = |command| printed(Command::new(command).arg("--version")).is_some();
    for needed in ["pkg-config", "cc"] {
        if !there(needed) {
            return println!("skipped {NAME}: there is no {needed}");
        }
    }
    let root = std::env::temp_dir().join(format!("cellgate-install-{}", std::process::id()));
    {
        let _alone = alone();
        install(&root);
    }
    let installed = root.join("opt/cellgate");
    let flags = |more: &[&str]| {
        let mut ask = Command::new("pkg-config");
        ask.args(["--cflags", "--libs"]).args(more).arg("cellgate");
        ask.env("PKG_CONFIG_PATH", installed.join("lib/pkgconfig"));
        ask.env("PKG_CONFIG_SYSROOT_DIR", &root);
        printed(&mut ask).unwrap()
    };
    let run = |flags: &str, at: Option<&Path>| {
        let flags: Vec<_> = flags.split_whitespace().collect();
        let mut program = compiled("crossing", &root.join("crossing"), &flags).unwrap();
        // What programs are built with is not what they need.
        let name = installed.join("lib/libcellgate.so");
        if name.is_symlink() {
            std::fs::remove_file(name).unwrap();
        }
        program.args(["a.0.100", "b.0.100"]);
        program.env("CELLGATE_SOCKET", daemon.path());
        program.env_remove("LD_LIBRARY_PATH");
        if let Some(at) = at {
            program.env("LD_LIBRARY_PATH", at);
        }
        printed(&mut program).unwrap()
    };
    assert_eq!(run(&flags(&[]), Some(&installed.join("lib"))), CROSSED);
    // Without a shared library to link, the static one is.
    assert_eq!(run(&flags(&["--static"]), None), CROSSED);

    let header = std::fs::read_to_string(installed.join("include/cellgate.h")).unwrap();
    let words = header.split(|c: char| !(c.is_ascii_alphanumeric() || "_(".contains(c)));
    let calls = words.filter_map(|word| word.split_once('(').map(|(name, _)| name));
    let calls: Vec<_> = calls.filter(|name| name.starts_with("cg_")).collect();
    assert!(calls.len() > 20, "{calls:?}");
    for name in calls {
        let page = installed.join(format!("share/man/man3/{name}.3"));
        assert!(page.is_file(), "no page tells of {name}");
    }
    std::fs::remove_dir_all(&root).unwrap();
    println!("ran {NAME}");
}
