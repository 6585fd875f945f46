#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| zk_recipes_fuzz::replies::check(choices));
