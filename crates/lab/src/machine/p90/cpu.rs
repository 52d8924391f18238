//! A CPU that threads of three levels share, on a virtual clock.

use std::collections::VecDeque;

use crate::world::{EventQueue, Ps};

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Needs so much of the CPU.
    Run(Ps),
    /// Sleeps until then.
    Sleep(Ps),
    End,
}

/// What runs in a thread.
pub trait Activity {
    /// What all threads of a machine use.
    type Machine;

    /// What comes after the step before, which is done at `now`. Steps that take no time must come
    /// to an end.
    fn next(&mut self, now: Ps, machine: &mut Self::Machine) -> Step;
}

/// Static priorities (section 2.3): a thread runs when none of a higher level can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Real-time connections. In turn, a step each.
    RealTime,
    /// Connections without guarantee. In turn, a step each.
    BestEffort,
    /// The time-sharing system, with a quantum.
    TimeSharing,
}

const LEVELS: usize = 3;
/// Linux' time slice on this machine is of this order.
const QUANTUM: Ps = Ps::from_ns(10_000_000);

/// Names a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(usize);

struct Thread<A> {
    activity: A,
    level: Level,
    /// Of the step it is in.
    left: Ps,
}

/// One CPU. Threads of equal level take turns; what a higher level begins preempts.
pub struct Cpu<A: Activity> {
    /// What its threads use.
    pub machine: A::Machine,
    now: Ps,
    busy: Ps,
    threads: Vec<Thread<A>>,
    ready: [VecDeque<usize>; LEVELS],
    /// Of the thread at the head of the last level.
    quantum: Ps,
    /// By how many had gone to sleep before, and by number.
    asleep: EventQueue<(u64, usize)>,
    sleeps: u64,
}

impl<A: Activity> Cpu<A> {
    pub fn new(machine: A::Machine) -> Self {
        Self {
            machine,
            now: Ps::ZERO,
            busy: Ps::ZERO,
            threads: Vec::new(),
            ready: Default::default(),
            quantum: QUANTUM,
            asleep: EventQueue::default(),
            sleeps: 0,
        }
    }

    pub const fn now(&self) -> Ps {
        self.now
    }

    /// How long it was not idle.
    pub const fn busy(&self) -> Ps {
        self.busy
    }

    /// A new thread, which can run at once.
    pub fn start(&mut self, level: Level, activity: A) -> ThreadId {
        let id = self.threads.len();
        self.threads.push(Thread {
            activity,
            level,
            left: Ps::ZERO,
        });
        self.ready[level as usize].push_back(id);
        ThreadId(id)
    }

    /// What runs in a thread, ended or not.
    pub fn activity(&self, thread: ThreadId) -> &A {
        &self.threads[thread.0].activity
    }

    /// The same, to be changed.
    pub fn activity_mut(&mut self, thread: ThreadId) -> &mut A {
        &mut self.threads[thread.0].activity
    }

    /// Runs until then.
    pub fn run(&mut self, until: Ps) {
        while self.now < until {
            let wake = self.wake();
            let stop = until.min(wake);
            match (0..LEVELS).find(|level| !self.ready[*level].is_empty()) {
                Some(level) => self.run_first(level, stop),
                None => self.now = stop,
            }
        }
    }

    /// Wakes those whose time has come, gives when the next one's will.
    fn wake(&mut self) -> Ps {
        loop {
            match self.asleep.next_time() {
                None => return Ps::MAX,
                Some(at) if at > self.now => return at,
                Some(_) => {}
            }
            if let Some((_, (_, id))) = self.asleep.pop() {
                self.ready[self.threads[id].level as usize].push_back(id);
            }
        }
    }

    /// Runs the first thread of a level until its step is done, or `stop`.
    fn run_first(&mut self, level: usize, stop: Ps) {
        let Some(id) = self.ready[level].front().copied() else {
            return;
        };
        let thread = &mut self.threads[id];
        if thread.left == Ps::ZERO {
            self.next_step(level, id);
            return;
        }
        let time_shares = level == Level::TimeSharing as usize;
        let slice = if time_shares { self.quantum } else { Ps::MAX };
        let ran = thread.left.min(stop.since(self.now)).min(slice);
        thread.left = thread.left.since(ran);
        let done = thread.left == Ps::ZERO;
        self.now = self.now.plus(ran);
        self.busy = self.busy.plus(ran);
        if time_shares {
            self.quantum = self.quantum.since(ran);
            if self.quantum == Ps::ZERO {
                self.turn(level);
            }
        } else if done && self.next_step(level, id) {
            self.turn(level);
        }
    }

    /// Whether the thread, the first of its level, can still run.
    fn next_step(&mut self, level: usize, id: usize) -> bool {
        let thread = &mut self.threads[id];
        match thread.activity.next(self.now, &mut self.machine) {
            Step::Run(time) => {
                thread.left = time;
                return true;
            }
            Step::Sleep(until) => {
                self.sleeps += 1;
                let until = until.max(self.now);
                self.asleep.push(until, (self.sleeps, id));
            }
            Step::End => {}
        }
        self.ready[level].pop_front();
        self.quantum = QUANTUM;
        false
    }

    fn turn(&mut self, level: usize) {
        self.ready[level].rotate_left(1);
        self.quantum = QUANTUM;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Ps {
        Ps::from_ns(ms * 1_000_000)
    }

    /// Does its steps and writes down when each was done.
    struct Script {
        name: char,
        steps: VecDeque<Step>,
    }

    impl Activity for Script {
        type Machine = Vec<(char, u64)>;

        fn next(&mut self, now: Ps, log: &mut Self::Machine) -> Step {
            log.push((self.name, now.ns() / 1_000_000));
            self.steps.pop_front().unwrap_or(Step::End)
        }
    }

    fn script(name: char, steps: &[Step]) -> Script {
        let steps = steps.iter().copied().collect();
        Script { name, steps }
    }

    #[test]
    fn a_higher_level_preempts_and_what_it_stopped_goes_on() {
        let mut cpu = Cpu::new(Vec::new());
        cpu.start(Level::TimeSharing, script('t', &[Step::Run(ms(9))]));
        let real_time = [Step::Sleep(ms(3)), Step::Run(ms(4))];
        cpu.start(Level::RealTime, script('r', &real_time));
        cpu.run(ms(30));
        let expected = [('r', 0), ('t', 0), ('r', 3), ('r', 7), ('t', 13)];
        assert_eq!(cpu.machine, expected);
        assert_eq!((cpu.now(), cpu.busy()), (ms(30), ms(13)));
    }

    #[test]
    fn connections_take_turns_by_step_and_processes_by_quantum() {
        let steps = [Step::Run(ms(1)), Step::Run(ms(1))];
        let mut cpu = Cpu::new(Vec::new());
        cpu.start(Level::RealTime, script('a', &steps));
        cpu.start(Level::RealTime, script('b', &steps));
        cpu.run(ms(5));
        let expected = [('a', 0), ('a', 1), ('b', 1), ('b', 2), ('a', 3), ('b', 4)];
        assert_eq!(cpu.machine, expected);
        let mut cpu = Cpu::new(Vec::new());
        cpu.start(Level::TimeSharing, script('a', &[Step::Run(ms(15))]));
        cpu.start(Level::TimeSharing, script('b', &[Step::Run(ms(15))]));
        cpu.run(ms(40));
        assert_eq!(cpu.machine, [('a', 0), ('b', 10), ('a', 25), ('b', 30)]);
    }

    #[test]
    fn stopping_and_going_on_changes_nothing() {
        let steps = [Step::Run(ms(7)), Step::Sleep(ms(20)), Step::Run(ms(3))];
        let log = |pause: Ps| {
            let mut cpu = Cpu::new(Vec::new());
            for (name, level) in [('a', Level::TimeSharing), ('b', Level::BestEffort)] {
                cpu.start(level, script(name, &steps));
            }
            let mut until = Ps::ZERO;
            while until < ms(60) {
                until = until.plus(pause);
                cpu.run(until);
            }
            cpu.machine
        };
        assert_eq!(log(ms(60)), log(Ps::from_ns(333_333)));
    }
}
