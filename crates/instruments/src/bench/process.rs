//! A contestant that is a program of its own: it does a round for each line that it is sent, and
//! answers with a line of numbers.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};

/// A peer that runs beside this program, on the CPUs that this program may use.
pub(super) struct Process {
    child: Child,
    /// None: told to end.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    line: String,
}

impl Process {
    pub(super) fn spawn(program: &OsStr, args: &[String]) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be run", program.display()))?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().context("the peer's output")?;
        Ok(Self {
            child,
            requests,
            answers: BufReader::new(answers),
            line: String::new(),
        })
    }

    /// Has a round done: the `N` numbers of the answer.
    ///
    /// # Errors
    /// The peer has ended, or says something else.
    pub(super) fn round<const N: usize>(&mut self) -> anyhow::Result<[u64; N]> {
        let requests = self.requests.as_mut().context("the peer was told to end")?;
        requests.write_all(b"\n").context("the peer has ended")?;
        self.line.clear();
        self.answers.read_line(&mut self.line)?;
        numbers(&self.line).with_context(|| format!("the peer answers {:?}", self.line))
    }

    /// Waits for its end, by the end of its input.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.requests = None;
        let status = self.child.wait()?;
        ensure!(status.success(), "the peer failed: {status}");
        Ok(())
    }
}

impl Drop for Process {
    /// Leaves no child behind.
    fn drop(&mut self) {
        self.requests = None;
        // One that has ended cannot be killed, and is waited for all the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers<const N: usize>(line: &str) -> Option<[u64; N]> {
    let mut words = line.split_whitespace();
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        Process::spawn("sh".as_ref(), &["-c".to_owned(), script.to_owned()]).unwrap()
    }

    #[test]
    fn a_peer_answers_a_line_for_a_line() {
        let mut peer = shell("n=1; while read -r line; do echo $n 7; n=$((n + 1)); done");
        assert_eq!(peer.round().unwrap(), [1, 7]);
        assert_eq!(peer.round().unwrap(), [2, 7]);
        peer.end().unwrap();
    }

    #[test]
    fn a_peer_that_fails_or_babbles_is_an_error() {
        assert!(Process::spawn("/nonexistent".as_ref(), &[]).is_err());
        assert!(shell("read -r line; echo 1 2 3").round::<2>().is_err());
        assert!(shell("read -r line; echo 1").round::<2>().is_err());
        assert!(shell("read -r line; echo ticks 1").round::<2>().is_err());
        assert!(shell("exit 0").round::<1>().is_err());
        assert!(shell("read -r line; exit 3").end().is_err());
    }
}
