use cellgate_lab::world::*;
fn main() {
    let a: Vec<u64> = std::env::args()
        .skip(1)
        .map(|x| x.parse().unwrap())
        .collect();
    std::panic::set_hook(Box::new(|_| {}));
    if std::env::var("MUT").is_ok() {
        for bug in within_reach().iter().filter(|b| b.starts_with("files:")) {
            if let Ok(only) = std::env::var("ONLY") {
                if !bug.contains(&only) {
                    continue;
                }
            }
            let k = world_kill(bug, a[0]..a[1]).unwrap();
            println!(
                "{:<32} {:>6} {}",
                bug,
                k.seed.map_or("-".into(), |_| k.tried.to_string()),
                k.text
            );
        }
        return;
    }
    let bug = std::env::var("BUG").ok();
    let options = bug.map_or(Options::default(), |b| with_bug(&b).expect("bug"));
    let mut marks = Marks::default();
    let mut bad = 0;
    let mut cells = 0;
    let mut n = 0;
    let t = std::time::Instant::now();
    for seed in a[0]..a[1] {
        let t1 = std::time::Instant::now();
        let s = scenario_of(WITH_TRANSFERS + seed);
        if a[0] + 1 == a[1] && std::env::var("SHOW").is_ok() {
            println!("{s:#?}");
        }
        match check_marked(&s, options) {
            Ok((o, m)) => {
                cells += o.cells;
                marks.add(&m)
            }
            Err(f) => {
                bad += 1;
                println!("seed {seed}: {f}");
                if bad > 8 {
                    break;
                }
            }
        }
        n += 1;
        if t1.elapsed().as_millis() > 3000 {
            println!("seed {seed} slow {:?}", t1.elapsed());
        }
    }
    println!("{n} seeds in {:?} cells {cells} bad {bad}", t.elapsed());
    for m in marks.iter() {
        print!("{}:{} {}  ", m.group, m.name, m.count);
    }
    println!();
}
