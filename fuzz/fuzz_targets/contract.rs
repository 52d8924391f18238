//! libFuzzer runs `cellgate_fuzz::contract`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::contract(data));
