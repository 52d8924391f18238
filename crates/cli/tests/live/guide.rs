//! The guide: each page's commands run in order in one shell, in namespaces of its own, and print
//! what the page says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::alone;
use rustix::process::geteuid;

/// A page takes a minute at most on a quiet machine; one that takes so long hangs.
const PAGE_MAX: Duration = Duration::from_secs(240);
/// A page waits for fixed times, and its daemon admits by what it has measured as it began: a
/// machine that does something beside fails a try.
const TRIES: u32 = 3;
/// Stands between what the blocks print.
const MARK: &str = "@@@ end of a block";

/// A block of commands, and what it prints, if the page says so.
struct Block {
    commands: String,
    printed: Option<String>,
}

/// The blocks of a page in order; a `text` block belongs to the `sh` block before it. A block of
/// another language is a file, whose name stands behind the language.
fn blocks(page: &str) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    let mut rest = page;
    while let Some((_, fenced)) = rest.split_once("\n```") {
        let (kind, body) = fenced.split_once('\n').expect("a line behind a fence");
        let (body, behind) = body.split_once("\n```").expect("a fence has an end");
        let body = format!("{body}\n");
        match (kind, all.last_mut()) {
            (kind, _) if kind.contains(' ') => {
                let name = kind.rsplit(' ').next().expect("a name");
                all.push(Block {
                    commands: format!("cat >{name} <<'END OF {name}'\n{body}END OF {name}\n"),
                    printed: None,
                });
            }
            ("sh", _) => all.push(Block {
                commands: body,
                printed: None,
            }),
            ("text", Some(block)) if block.printed.is_none() => block.printed = Some(body),
            _ => {}
        }
        rest = behind;
    }
    all
}

/// Where the command is.
fn binaries() -> &'static Path {
    let command = Path::new(env!("CARGO_BIN_EXE_cellgate"));
    command.parent().expect("a directory")
}

/// Runs all blocks: what each has printed.
fn run(blocks: &[Block], directory: &Path, installed: &[(&str, PathBuf)]) -> Vec<String> {
    // Nothing of this machine is there: no network, no process, no other daemon's directory.
    let mut script = format!(
        "mount -t tmpfs none /run || exit 77\nip link set lo up || exit 77\nexec 2>&1\n\
         export PATH={:?}:$PATH COLUMNS=80\nunset CELLGATE_SOCKET XDG_RUNTIME_DIR\n",
        binaries().display().to_string()
    );
    for block in blocks {
        script += &format!("{}printf '\\n%s\\n' '{MARK}'\n", block.commands);
    }
    let file = directory.join("page.sh");
    std::fs::write(&file, script).expect("a file");
    let mut command = Command::new("unshare");
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let output = command
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["timeout", &PAGE_MAX.as_secs().to_string(), "bash"])
        .arg(&file)
        .current_dir(directory)
        .envs(installed.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut parts: Vec<String> = printed
        .split(&format!("\n{MARK}\n"))
        .map(str::to_owned)
        .collect();
    parts.pop();
    assert_eq!(
        parts.len(),
        blocks.len(),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    parts
}

/// Runs a page in a directory of its own. The error: what it should have printed, all that it has,
/// and what its programs wrote to files beside.
fn try_page(name: &str, blocks: &[Block], installed: &[(&str, PathBuf)]) -> Result<(), String> {
    let name_of_it = format!("cellgate-{name}-{}", std::process::id());
    let directory: PathBuf = std::env::temp_dir().join(name_of_it);
    std::fs::create_dir(&directory).expect("a directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::os::unix::fs::symlink(source, directory.join("cellgate")).expect("a link");
    let begin = Instant::now();
    let printed = run(blocks, &directory, installed);
    println!("guide_{name} took {:.1} s", begin.elapsed().as_secs_f64());
    let logs = logs(&directory);
    std::fs::remove_dir_all(&directory).expect("a directory");
    let all = printed.concat();
    for (block, printed) in blocks.iter().zip(printed) {
        if let Some(expected) = &block.printed {
            let printed = format!("{}\n", printed.trim_end());
            snapbox::Assert::new()
                .try_eq(None, printed.into(), expected.into())
                .map_err(|error| format!("{error}\nof all this:\n{all}\n{logs}"))?;
        }
    }
    Ok(())
}

/// The logs in a directory.
fn logs(directory: &Path) -> String {
    let files = std::fs::read_dir(directory).expect("a directory");
    let files = files.map(|entry| entry.expect("an entry").path());
    let logs = files.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let told = logs.map(|path| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        format!("{}:\n{text}", path.display())
    });
    told.collect()
}

fn follows(name: &str) {
    follows_with(name, &[]);
}

/// The same where these variables say what is installed.
fn follows_with(name: &str, installed: &[(&str, PathBuf)]) {
    let _alone = alone();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let page = std::fs::read_to_string(guide.join(format!("{name}.md"))).expect("a page");
    assert!(
        page.lines().count() < 120,
        "{name}: too long to be followed"
    );
    let namespaces = Command::new("unshare")
        .args(["--net", "--pid", "--fork", "true"])
        .output();
    if !namespaces.is_ok_and(|output| output.status.success()) {
        return println!("skipped guide_{name}: no namespaces of its own");
    }
    let blocks = blocks(&page);
    for left in (0..TRIES).rev() {
        match try_page(name, &blocks, installed) {
            Ok(()) => break,
            Err(told) if left == 0 => panic!("guide_{name}: {told}"),
            Err(told) => println!("tried again: guide_{name}: {told}"),
        }
    }
    println!("ran guide_{name}");
}

#[test]
fn keep_a_video_alive() {
    follows("keep-a-video-alive");
}

#[test]
fn why_was_i_refused() {
    follows("why-was-i-refused");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn join_two_hosts_over_udp() {
    follows("join-two-hosts-over-udp");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn let_tcp_ip_run_over_a_vc() {
    follows("let-tcp-ip-run-over-a-vc");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn decode_my_capture() {
    follows("decode-my-capture");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn teach_with_the_lab() {
    follows("teach-with-the-lab");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn run_it_for_good() {
    follows("run-it-for-good");
}

/// The libraries are where packages would have put them for compilers, linkers and pip.
#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_connection_from_rust_c_and_python() {
    let Some(wheels) = std::env::var_os("CELLGATE_WHEELS") else {
        println!("skipped guide_a-connection-from-rust-c-and-python: CELLGATE_WHEELS has no wheel");
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = binaries().parent().expect("a directory");
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "-q",
        "--lib",
        "-p",
        "cellgate-capi",
        "-p",
        "cellgate-cli",
    ]);
    build.arg("--features=cellgate-cli/live");
    build.arg("--target-dir").arg(target);
    if binaries().ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo starts").success());
    let installed = [
        ("C_INCLUDE_PATH", source.join("crates/capi/include")),
        ("LIBRARY_PATH", binaries().to_owned()),
        ("LD_LIBRARY_PATH", binaries().to_owned()),
        // Much of what the library depends on was built with this profile.
        ("CARGO_TARGET_DIR", target.to_owned()),
        ("CARGO_PROFILE_DEV_DEBUG", "line-tables-only".into()),
        ("CARGO_NET_OFFLINE", "true".into()),
        ("PIP_NO_INDEX", "1".into()),
        ("PIP_FIND_LINKS", wheels.into()),
    ];
    follows_with("a-connection-from-rust-c-and-python", &installed);
}

#[test]
fn every_page_has_a_test() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let tests = include_str!("guide.rs");
    for file in std::fs::read_dir(guide).expect("a directory") {
        let name = file.expect("a file").file_name();
        let name = name
            .to_str()
            .and_then(|name| name.strip_suffix(".md"))
            .expect("a page");
        assert!(tests.contains(&format!("(\"{name}\"")), "{name}");
    }
}
