use super::*;

/// The root of `all` from the digests of its disk-PDUs, taken in the order of `order`.
fn root_of(all: &[u8], mut order: Vec<u64>, rng: Option<&mut Pcg64Mcg>) -> Digest {
    if let Some(rng) = rng {
        for last in (1..order.len()).rev() {
            order.swap(last, rng.next_u64() as usize % (last + 1));
        }
    }
    let mut subtrees = Subtrees::new();
    let count = SHORT.count(all.len() as u64);
    for index in order {
        if count > 1 {
            assert_eq!(subtrees.root(count), None);
        }
        assert!(!subtrees.has(index));
        assert!(subtrees.insert(index, digest(all, index)));
        assert!(!subtrees.insert(index, Digest([0; 32])), "the first stays");
        assert!(subtrees.has(index));
    }
    assert_eq!(subtrees.present(), count);
    match count {
        0 => Digesting::new(0).root().unwrap(),
        1 => Digesting::new(0).octets(all).root().unwrap(),
        _ => subtrees.root(count).unwrap(),
    }
}

#[test]
fn digests_of_disk_pdus_join_to_what_b3sum_prints() {
    let mut rng = Pcg64Mcg::new(3);
    let around = |len: usize| [len - 1, len, len + 1];
    let mut lens = vec![0, 1, 63, 64, 65, 1_023, 1_024, 1_025, 2_048, 5_000];
    lens.extend((1..=9).flat_map(|count| around(count * LEN)));
    lens.extend(around(LEN + 1_024));
    lens.extend(around(16 * LEN));
    lens.extend(around(21 * LEN + 5 * 1_024));
    for len in lens {
        let all = octets(len as u64, len);
        let expected = Digest::of_file(&all);
        assert_eq!(expected.0, *blake3::hash(&all).as_bytes());
        assert_eq!(expected.to_string(), blake3::hash(&all).to_hex().as_str());
        let order: Vec<u64> = (0..SHORT.count(len as u64)).collect();
        assert_eq!(root_of(&all, order.clone(), None), expected, "{len}");
        for _ in 0..3 {
            let root = root_of(&all, order.clone(), Some(&mut rng));
            assert_eq!(root, expected, "{len}");
        }
    }
}

#[test]
fn holes_have_the_digests_of_zeros_wherever_they_lie() {
    let offset = 7 * LEN as u64;
    for (before, hole, behind) in [
        (0, LEN, 0),
        (5, 60_000, 531),
        (0, 3, 1_000),
        (1_024, 1_024, 0),
    ] {
        let mut all = octets(1, before + hole + behind);
        all[before..before + hole].fill(0);
        let mut pieces = Digesting::new(offset);
        pieces.octets(&all[..before]).zeros(hole as u64);
        pieces.octets(&all[before + hole..]);
        assert_eq!(
            pieces.digest(),
            Digesting::new(offset).octets(&all).digest()
        );
        assert_eq!(pieces.root(), None, "it is not the first");
    }
    assert_eq!(Digesting::new(0).digest(), None);
    assert_eq!(Digesting::new(0).root(), Some(Digest::of_file(&[])));
    let most = DiskLen::MAX.octets().into();
    assert!(Digesting::new(most).zeros(most).digest().is_some());
}

/// A file of 2^40 octets has 2^24 of the shortest disk-PDUs; its digests are of anything.
#[test]
fn digests_of_a_file_of_2_to_the_40_octets_take_little_memory_in_order() {
    let mut subtrees = Subtrees::new();
    let count = 1 << 14;
    for index in 0..count {
        subtrees.insert(index, Digest([index as u8; 32]));
        if index % 1_001 == 0 || index + 1 == count {
            let nodes = format!("{subtrees:?}").matches(": (").count();
            assert!((1..=2 * 14 + 2).contains(&nodes), "{nodes} of {index}");
        }
    }
    let last = (1 << 24) - 1;
    assert!(subtrees.insert(last, Digest([9; 32])));
    assert!(subtrees.has(last) && !subtrees.has(last - 1));
    assert_eq!(SHORT.count(1 << 40), 1 << 24);
    assert_eq!(SHORT.range(last, 1 << 40), (1 << 40) - LEN as u64..1 << 40);
    assert_eq!(SHORT.range(last + 1, 1 << 40), 1 << 40..1 << 40);
    assert_eq!(SHORT.range(u64::MAX, 1 << 40), 1 << 40..1 << 40);
    assert_eq!(SHORT.range(0, 5), 0..5);
}

#[test]
fn a_length_of_disk_pdus_is_a_power_of_two_within_bounds() {
    let good = [64 << 10, 128 << 10, 1 << 20, 16 << 20];
    let bad = [0, 1, 32 << 10, (64 << 10) + 1, 96 << 10, 32 << 20, 1 << 31];
    assert!(good.into_iter().all(|len| DiskLen::new(len).is_some()));
    assert!(bad.into_iter().all(|len| DiskLen::new(len).is_none()));
}
