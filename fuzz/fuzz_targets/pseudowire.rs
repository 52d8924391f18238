//! libFuzzer runs `cellgate_fuzz::pseudowire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::pseudowire(data));
