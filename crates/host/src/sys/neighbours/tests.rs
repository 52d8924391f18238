use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Barrier, Mutex};

use super::*;

/// A directory like /proc.
struct Proc(PathBuf);

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Proc {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-neighbours-{}-{name}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("sys")).unwrap();
        fs::write(root.join("uptime"), "1 2\n").unwrap();
        Self(root)
    }

    /// A thread of a process that has another one besides.
    fn thread(&self, (pid, tid): (u32, u32), comm: &[u8], stat: &str, status: &str) {
        for (tid, comm) in [(pid, &b"cg-adapter\n"[..]), (tid, comm)] {
            let path = self.0.join(format!("{pid}/task/{tid}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("comm"), comm).unwrap();
            fs::write(path.join("stat"), stat).unwrap();
            fs::write(path.join("status"), status).unwrap();
        }
    }

    fn found(&self) -> Vec<FirmwareThread> {
        let mut found = Walk::at(&self.0, FIRMWARE).finish();
        found.sort_by_key(|one| one.age);
        found
    }
}

fn stat(name: &str, state: &str, flags: u64, began: &str) -> String {
    format!("7 ({name}) {state} 1 2 3 4 5 {flags} 7 8 9 10 11 12 13 14 15 16 17 18 {began} 20 21\n")
}

fn status(cpus: &str) -> String {
    format!("Name:\tcg-firmware\nState:\tR\nCpus_allowed:\t3\nCpus_allowed_list:\t{cpus}\nx\n")
}

#[test]
fn firmware_threads_are_found_with_their_cpus_and_ages() {
    let proc = Proc::new("found");
    let running = |began: &str| stat("cg-firmware", "R", 64, began);
    proc.thread((10, 12), b"cg-firmware\n", &running("500"), &status("1"));
    proc.thread((20, 21), b"cg-firmware?\n", &running("400"), &status("0"));
    // Those that are not pinned, have other names, or end.
    proc.thread((30, 31), b"cg-firmware\n", &running("1"), &status("0-1"));
    proc.thread((31, 32), b"cg-firmware2\n", &running("1"), &status("1"));
    proc.thread((32, 33), b"cg-firmwar\n", &running("1"), &status("1"));
    let ends = stat("cg-firmware", "R", 68, "1");
    proc.thread((33, 34), b"cg-firmware\n", &ends, &status("1"));
    let dead = stat("cg-firmware", "Z", 64, "1");
    proc.thread((34, 35), b"cg-firmware\n", &dead, &status("1"));
    // A name that is made to be taken for what follows it.
    let forged = stat(
        "x) R 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 (",
        "S",
        64,
        "300",
    );
    proc.thread((40, 41), b"cg-firmware\n", &forged, &status("1"));
    let thread = |pid, cpu, age, chooses| FirmwareThread {
        pid,
        cpu,
        age,
        chooses,
    };
    let all = proc.found();
    let expected = [
        thread(40, 1, (300, 41), false),
        thread(20, 0, (400, 21), true),
        thread(10, 1, (500, 12), false),
    ];
    assert_eq!(all, expected);
    assert_eq!(others_on(&all, 1, 10), [40]);
    assert_eq!(others_on(&all, 1, 7), [10, 40]);
    assert_eq!(others_on(&all, 5, 7), [0; 0]);
    // In parts the same is found.
    let mut walk = Walk::at(&proc.0, FIRMWARE);
    let mut parts = 1;
    while walk.go_on(1) {
        parts += 1;
    }
    assert!(parts > 16 && walk.found().len() == 3, "{parts}");
}

#[test]
fn odd_text_is_passed_over() {
    let proc = Proc::new("odd");
    let good = stat("cg-firmware", "R", 64, "500");
    let odd = [
        (String::new(), status("1")),
        ("7 (cg-firmware".to_owned(), status("1")),
        ("7 (cg-firmware) R 1 2".to_owned(), status("1")),
        (stat("cg-firmware", "R", 64, "-1"), status("1")),
        (
            stat("cg-firmware", "R", 64, "99999999999999999999999"),
            status("1"),
        ),
        (good.clone(), String::new()),
        (good.clone(), status("")),
        (good.clone(), status("x")),
        (good.clone(), status("1,3")),
        (good.clone(), status("99999999999999999999999")),
        (good.clone(), "x".repeat(20_000)),
    ];
    for (number, (stat, status)) in (100_u32..).step_by(2).zip(&odd) {
        proc.thread((number, number + 1), b"cg-firmware\n", stat, status);
    }
    proc.thread((50, 51), b"\xff\xfe\0\n", &good, &status("1"));
    // Processes and threads whose numbers are none, files where directories were, and nothing.
    fs::create_dir_all(proc.0.join("99999999999/task/5")).unwrap();
    fs::create_dir_all(proc.0.join("60/task/-1")).unwrap();
    fs::create_dir_all(proc.0.join("61/task/62")).unwrap();
    fs::create_dir_all(proc.0.join("61/task/63/comm")).unwrap();
    fs::write(proc.0.join("64"), "x").unwrap();
    assert_eq!(proc.found(), []);
    assert_eq!(Walk::at(Path::new("/nowhere"), FIRMWARE).finish(), []);
    proc.thread((70, 71), b"cg-firmware\n", &good, &status("1"));
    assert_eq!(proc.found().len(), 1, "the others hide nobody");
}

#[test]
fn a_walk_looks_at_so_much_and_no_more() {
    let proc = Proc::new("bounded");
    for number in 0..FOUND_MAX + 50 {
        let pid = 100 + 2 * u32::try_from(number).unwrap();
        let stat = stat("cg-firmware", "R", 64, "5");
        proc.thread((pid, pid + 1), b"cg-firmware\n", &stat, &status("1"));
    }
    assert_eq!(proc.found().len(), FOUND_MAX);
}

/// Threads without CPUs: number, and its CPU, age, and whether it has decided.
type Table = Arc<Mutex<BTreeMap<u32, (Option<usize>, u64, bool)>>>;

struct Simulated {
    table: Table,
    number: u32,
    age: u64,
    /// Makes others run in between, now here and now there.
    dice: u64,
    waits: u32,
}

impl Simulated {
    fn pause(&mut self) {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005) + 1;
        for _ in 0..(self.dice >> 33) % 4 {
            std::thread::yield_now();
        }
    }

    fn set(&mut self, cpu: Option<usize>) {
        self.pause();
        let mut table = self.table.lock().unwrap();
        table.insert(self.number, (cpu, self.age, false));
    }
}

impl Place for Simulated {
    fn others(&mut self) -> Vec<FirmwareThread> {
        self.pause();
        let table = self.table.lock().unwrap();
        let others = table.iter().filter(|(number, _)| **number != self.number);
        let pinned = others.filter_map(|(number, (cpu, age, decided))| {
            Some(FirmwareThread {
                pid: *number,
                cpu: (*cpu)?,
                age: (*age, *number),
                chooses: !decided,
            })
        });
        pinned.collect()
    }

    fn age(&self) -> (u64, u32) {
        (self.age, self.number)
    }

    fn pin(&mut self, cpu: usize) -> bool {
        self.set(Some(cpu));
        true
    }

    fn leave(&mut self) {
        self.set(None);
    }

    fn wait(&mut self) {
        self.waits += 1;
        assert!(self.waits < WAITS_MAX, "it waits for who does not leave");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// CPUs that so many end on, who begin together.
fn simulated(threads: u32, cpus: usize, seed: u64) -> BTreeMap<usize, u32> {
    let table = Table::default();
    let barrier = Arc::new(Barrier::new(threads as usize));
    let all: Vec<_> = (0..threads)
        .map(|number| {
            let (table, barrier) = (Arc::clone(&table), Arc::clone(&barrier));
            // Ties are as frequent as in clock ticks of 10 ms.
            let dice = seed.wrapping_mul(31).wrapping_add(number.into());
            let age = (seed >> number) & 1;
            std::thread::spawn(move || {
                let mut place = Simulated {
                    table: Arc::clone(&table),
                    number,
                    age,
                    dice,
                    waits: 0,
                };
                let all: Vec<_> = (0..cpus).collect();
                barrier.wait();
                let (cpu, _) = choose(&mut place, &all).unwrap();
                place.pause();
                table.lock().unwrap().insert(number, (Some(cpu), age, true));
                cpu
            })
        })
        .collect();
    let mut taken = BTreeMap::new();
    for thread in all {
        *taken.entry(thread.join().unwrap()).or_insert(0) += 1;
    }
    taken
}

#[test]
fn who_begin_together_end_on_different_cpus_where_there_are_enough() {
    for seed in 0..300 {
        let taken = simulated(4, 4, seed);
        assert_eq!(taken.len(), 4, "seed {seed}: {taken:?}");
        let taken = simulated(3, 5, seed);
        assert_eq!(taken.len(), 3, "seed {seed}: {taken:?}");
        // Where there are not, none stays free.
        let taken = simulated(5, 2, seed);
        assert_eq!(taken.len(), 2, "seed {seed}: {taken:?}");
    }
}

#[test]
fn the_last_free_cpu_is_taken_else_the_one_with_the_fewest() {
    let taken = |there: &[usize], cpus: &[usize]| {
        let all = there.iter().zip(0..);
        let table = all.map(|(cpu, number)| (number, (Some(*cpu), 0, true)));
        let mut place = Simulated {
            table: Arc::new(Mutex::new(table.collect())),
            number: 1_000,
            age: 5,
            dice: 1,
            waits: 0,
        };
        choose(&mut place, cpus)
    };
    assert_eq!(taken(&[], &[0, 2, 3]), Some((3, 0)));
    assert_eq!(taken(&[3], &[0, 2, 3]), Some((2, 0)));
    assert_eq!(taken(&[3, 2], &[0, 2, 3]), Some((0, 0)));
    assert_eq!(taken(&[3, 2, 0], &[0, 2, 3]), Some((3, 1)));
    assert_eq!(taken(&[3, 2, 0, 3], &[0, 2, 3]), Some((2, 1)));
    assert_eq!(taken(&[1, 1, 0, 0, 0], &[0, 1]), Some((1, 2)));
    assert_eq!(taken(&[1], &[]), None);
}

/// Real threads of this machine, under a name that nobody else's have.
#[test]
fn threads_that_start_together_are_pinned_to_different_cpus() {
    let cpus = crate::sys::allowed_cpus();
    let count = cpus.len().min(4);
    if count < 2 {
        return println!("skipped neighbours: one CPU");
    }
    for round in 0..20 {
        let barrier = Arc::new(Barrier::new(count));
        let chosen = Arc::new(Mutex::new(Vec::new()));
        let done = Arc::new(Barrier::new(count));
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let (barrier, done) = (Arc::clone(&barrier), Arc::clone(&done));
                let (chosen, cpus) = (Arc::clone(&chosen), cpus.clone());
                std::thread::spawn(move || {
                    name_thread(&format!("cg-{}", std::process::id()));
                    barrier.wait();
                    let (cpu, others) = choose_cpu(&cpus).unwrap();
                    chosen.lock().unwrap().push((cpu, others));
                    assert_eq!(crate::sys::allowed_cpus(), [cpu]);
                    // Who is gone is no neighbour.
                    done.wait();
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let mut chosen = chosen.lock().unwrap().clone();
        chosen.sort_unstable();
        let highest = cpus[cpus.len() - count..].iter().map(|cpu| (*cpu, 0));
        assert_eq!(chosen, highest.collect::<Vec<_>>(), "round {round}");
    }
    println!("ran neighbours");
}

#[test]
fn a_list_of_cpus_tells_which_there_are() {
    for (list, cpu, has) in [
        ("0-1", 1, true),
        ("0-1", 2, false),
        ("0,3-4", 3, true),
        ("0,3-4", 2, false),
        ("5", 5, true),
        ("", 0, false),
        ("x-3,-,4-", 3, false),
    ] {
        assert_eq!(has_cpu(list, cpu), has, "{list} {cpu}");
    }
    let machine = cpus_of_machine().expect("Linux tells");
    let mut allowed = crate::sys::allowed_cpus().into_iter();
    assert!(allowed.all(|cpu| has_cpu(&machine, cpu)), "{machine}");
}
