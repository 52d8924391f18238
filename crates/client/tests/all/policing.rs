//! The PDUs that an adapter lets in by a contract.

use std::time::Duration;

use crate::common::{Daemon, PATIENCE};
use cellgate::SduOptions;

/// VBR.2: the second bucket is of CLP 0 alone. VBR.1: of both.
#[test]
fn the_sustained_rate_of_scr0_judges_high_priority_alone() {
    const EACH: usize = 200;
    for (scr, low) in [("scr0", EACH), ("scr", 0)] {
        let daemon = Daemon::start();
        let a = daemon.open("a.0.100", "ubr,aal5:max_sdu=40,rx:none");
        let contract = format!("vbr,aal5:tx:none,rx:pcr=300000,{scr}=1,mbs=2,max_sdu=40");
        let b = daemon.open("b.0.100", &contract);
        let mut came = [0; 2];
        let mut read = |patience| {
            while let Ok(pdu) = b.next_pdu_timeout(patience) {
                came[usize::from(pdu.received().clp)] += 1;
            }
        };
        for n in 0..2 * EACH {
            let options = SduOptions {
                clp: n >= EACH,
                ..SduOptions::default()
            };
            a.send_with(&[0; 40], options).unwrap();
            a.flush(PATIENCE).unwrap();
            read(Duration::ZERO);
        }
        read(Duration::from_millis(200));
        // The burst, a PDU time, and what may come at once.
        assert!((2..=40).contains(&came[0]), "{scr}: {came:?}");
        assert_eq!(came[1], low, "{scr}: {came:?}");
    }
}
