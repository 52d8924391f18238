//! libFuzzer runs `cellgate_fuzz::aal5_round_trip`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::aal5_round_trip(data));
