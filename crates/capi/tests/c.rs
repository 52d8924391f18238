//! A C program over the library, compiled by this machine's compiler.

extern crate client as cellgate;

#[path = "../../client/tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use cellgate::Indication;
use common::{Fake, answers::OFFER};

/// Builds the library, which tests do not link, and so are built without: where it is.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "-p", "cellgate-capi", "--lib", "--target-dir"]);
    build.arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let built = build.output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    folder.to_owned()
}

/// What a program of `examples` printed; none if there is no compiler.
fn run(name: &str, arguments: &[&str], fake: &Fake) -> Option<String> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = std::env::temp_dir().join(format!("cellgate-{name}-{}", std::process::id()));
    let library = library();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg("-I")
        .arg(crate_dir.join("include"))
        .arg(crate_dir.join(format!("examples/{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .arg("-lcellgate")
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .output();
    let compiled = match compiled {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        compiled => compiled.unwrap(),
    };
    let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(compiled.status.success(), "{said}");
    let output = Command::new(&program)
        .args(arguments)
        .env("CELLGATE_SOCKET", fake.path())
        .output()
        .unwrap();
    std::fs::remove_file(&program).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_c_program_sends_and_receives() {
    let fake = Fake::start();
    let Some(printed) = run("crossing", &["a.0.100", "b.0.100"], &fake) else {
        println!("skipped capi_example: there is no cc");
        return;
    };
    let expected = "\
copied, uu 7, clp 1
in place, 8 octets
again: no PDU of this number is held
submit: no space is borrowed
too long: the SDU is longer than the contract allows
the server said no: not enough transmit bandwidth: 2000000 cells/s needed, 1000000 free; \
this would fit: cbr,aal5:pcr=1000000
copies: 1 of 2, 1 of 2
";
    assert_eq!(printed, expected);
    println!("ran capi_example");
}

#[test]
fn a_c_program_asks_for_less_and_takes_what_is_offered() {
    let fake = Fake::start();
    fake.tell_after_changes(Indication::CanGrow {
        contract: OFFER.to_owned(),
    });
    let Some(printed) = run("offers", &["a.0.100", "b.0.100"], &fake) else {
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
