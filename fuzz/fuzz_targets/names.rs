#![no_main]

libfuzzer_sys::fuzz_target!(|queue: zk_recipes_fuzz::names::Queue| zk_recipes_fuzz::names::check(&queue));
