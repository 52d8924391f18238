use cellgate_lab::world::*;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let bug = std::env::var("BUG").ok();
    let options = bug.map_or(Options::default(), |b| with_bug(&b).expect("bug"));
    let mut marks = Marks::default();
    let mut bad = 0; let mut cells = 0;
    let t = std::time::Instant::now();
    for seed in a[0]..a[1] {
        let t1 = std::time::Instant::now();
        let s = scenario_of(WITH_TRANSFERS + seed);
        if a[0] + 1 == a[1] && std::env::var("SHOW").is_ok() { println!("{s:#?}"); }
        match check_marked(&s, options) {
            Ok((o, m)) => { cells += o.cells; marks.add(&m) }
            Err(f) => { bad += 1; println!("seed {seed}: {f}"); if bad > 8 { break; } }
        }
        if t1.elapsed().as_millis() > 2000 { println!("seed {seed} slow {:?}", t1.elapsed()); }
    }
    println!("{:?} cells {cells} bad {bad}", t.elapsed());
    for m in marks.iter() { print!("{}:{} {}  ", m.group, m.name, m.count); }
    println!();
}
