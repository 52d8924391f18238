//! Best effort divides what nobody has reserved.

/// What a best-effort connection puts in for its share of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its part relative to the others': the contract's MCR in cells/s. 0 counts as 1.
    pub weight: u32,
    /// The most that it may have, in cells/s; none: there is no bound.
    pub most: Option<u64>,
}

/// Divides `rest` cells/s by weight; what one may not have goes to the others. Each share is its
/// exact part rounded down or up, but at least 1 while `rest` has one for each, at the expense of
/// the largest. The sum is exactly `rest`, or that of all bounds if those are less.
///
/// Work: a sort.
pub fn divide(rest: u64, claims: &[Claim]) -> Vec<u64> {
    let weight = |i: usize| u128::from(claims[i].weight.max(1));
    let most = |i: usize| u128::from(claims[i].most.unwrap_or(u64::MAX));
    let mut shares = vec![0; claims.len()];
    let mut left = u128::from(rest);
    let mut weights: u128 = (0..claims.len()).map(weight).sum();
    // Whoever reaches its bound first as the shares grow comes first.
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|a, b| (most(*a) * weight(*b)).cmp(&(most(*b) * weight(*a))));
    let bound = |i: usize, left, weights| most(i) * weights <= weight(i) * left;
    let mut open = Vec::new();
    for i in order {
        if bound(i, left, weights) {
            // At most `left`, which has 64 bits.
            shares[i] = most(i) as u64;
            left -= most(i);
            weights -= weight(i);
        } else {
            open.push(i);
        }
    }
    open.sort_unstable();
    let (mut before, mut taken) = (0, 0);
    for i in open {
        before += weight(i);
        let upto = left * before / weights;
        shares[i] = (upto - taken) as u64;
        taken = upto;
    }
    lift_from_nothing(&mut shares);
    shares
}

fn lift_from_nothing(shares: &mut [u64]) {
    let (mut largest, nothing): (Vec<usize>, Vec<usize>) =
        (0..shares.len()).partition(|i| shares[*i] > 0);
    largest.sort_by_key(|i| (core::cmp::Reverse(shares[*i]), *i));
    let mut nothing = nothing.into_iter();
    for i in largest {
        while shares[i] > 1 {
            let Some(other) = nothing.next() else {
                return;
            };
            shares[i] -= 1;
            shares[other] = 1;
        }
    }
}
