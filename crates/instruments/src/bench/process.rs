//! A contestant that is a program of its own: it does a round for each line that it is sent, and
//! answers with a line of two numbers, the time that the round took and what came of it.

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
    /// The last answer, or what went wrong first.
    answer: anyhow::Result<[u64; 2]>,
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
            answer: Ok([0; 2]),
        })
    }

    /// Has a round done: the time that it took; 0 once one has failed.
    pub(super) fn round(&mut self) -> u64 {
        self.round_judged(|_| Ok(()))
    }

    /// The same of a round that fails unless what came of it is right.
    pub(super) fn round_judged(&mut self, judge: impl FnOnce(u64) -> anyhow::Result<()>) -> u64 {
        if self.answer.is_ok() {
            let answer = self.ask();
            self.answer = answer.and_then(|answer| judge(answer[1]).map(|()| answer));
        }
        self.answer.as_ref().map_or(0, |answer| answer[0])
    }

    fn ask(&mut self) -> anyhow::Result<[u64; 2]> {
        let requests = self.requests.as_mut().context("the peer was told to end")?;
        requests.write_all(b"\n").context("the peer has ended")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        numbers(&line).with_context(|| format!("the peer answers {line:?}"))
    }

    /// Waits for its end, by the end of its input: what came of the last round.
    ///
    /// # Errors
    /// A round failed, or the peer did.
    pub(super) fn end(mut self) -> anyhow::Result<u64> {
        self.requests = None;
        let answer = std::mem::replace(&mut self.answer, Ok([0; 2]))?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the peer failed: {status}");
        Ok(answer[1])
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

fn numbers(line: &str) -> Option<[u64; 2]> {
    let words = line.split_whitespace().map(str::parse);
    let numbers: Vec<u64> = words.collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
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
        assert_eq!([peer.round(), peer.round()], [1, 2]);
        assert_eq!(peer.end().unwrap(), 7);
    }

    #[test]
    fn a_peer_that_fails_or_babbles_is_an_error() {
        assert!(Process::spawn("/nonexistent".as_ref(), &[]).is_err());
        for script in [
            "read -r line; echo 1 2 3",
            "read -r line; echo 1",
            "read -r line; echo ticks 1",
            "exit 0",
            "read -r line; echo 1 2; exit 3",
        ] {
            let mut peer = shell(script);
            peer.round();
            assert!(peer.end().is_err(), "{script}");
        }
        let mut peer = shell("while read -r line; do echo 5 6; done");
        assert_eq!(peer.round_judged(|_| Err(anyhow::anyhow!("wrong"))), 0);
        assert_eq!(peer.round(), 0, "what went wrong first stays");
        assert!(peer.end().is_err());
    }
}
