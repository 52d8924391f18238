//! libFuzzer runs `cellgate_fuzz::files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellgate_fuzz::files(data));
