#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| zk_recipes_fuzz::connect_string::check(text));
