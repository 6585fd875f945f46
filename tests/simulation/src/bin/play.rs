//! Plays runs, and tells of broken promises.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use zk_recipes::testing::MemoryVersion;
use zk_recipes_simulation::plan::{Conditions, Fault, Plan};
use zk_recipes_simulation::recipes::{self, Recipe};
use zk_recipes_simulation::world::{self, Report};

const HELP: &str = "\
Usage: play [--recipe NAME] [--seed FIRST] [--seeds NUMBER] [--for SECONDS] [--machines N] [--servers N]
            [--storm SECONDS] [--zookeeper 3.5|3.6|3.9] [--with FAULT]... [--without FAULT]... [--plant DEFECT]
            [--trace] [--until-broken]

Plays the recipes from seeds. The first run that breaks a promise is played again with less: without kinds of faults,
for a shorter time, with fewer machines; the least that still breaks one is told with its time line. The last line says
how much was played and how many promises were broken; the exit status is 1 if any was.";

const VERSIONS: [(&str, MemoryVersion); 3] =
    [("3.5", MemoryVersion::V3_5), ("3.6", MemoryVersion::V3_6), ("3.9", MemoryVersion::V3_9)];

/// How much of a time line is told.
const LINES: usize = 60;

struct Options {
    recipes: Vec<Recipe>,
    seed: u64,
    /// Not given: one, or as many as there is time for.
    seeds: Option<u64>,
    limit: Option<Duration>,
    conditions: Conditions,
    traces: bool,
    /// Whether the first broken promise is the last.
    until_broken: bool,
}

fn fault(name: &str) -> Result<Fault, String> {
    let names = || Fault::ALL.map(Fault::name).join(", ");
    Fault::of_name(name).ok_or_else(|| format!("no fault {name:?}; there are: {}", names()))
}

fn options() -> Result<Options, lexopt::Error> {
    let mut options = Options {
        recipes: recipes::ALL.to_vec(),
        seed: 1,
        seeds: None,
        limit: None,
        conditions: Conditions::default(),
        traces: false,
        until_broken: false,
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("recipe") => {
                let name = arguments.value()?.string()?;
                let names = || recipes::ALL.map(|recipe| recipe.name).join(", ");
                let recipe = Recipe::of_name(&name);
                options.recipes =
                    vec![recipe.ok_or_else(|| format!("no recipe {name:?}; there are: {}", names()))?];
            }
            Long("seed") => options.seed = arguments.value()?.parse()?,
            Long("seeds") => options.seeds = Some(arguments.value()?.parse()?),
            Long("for") => options.limit = Some(Duration::from_secs(arguments.value()?.parse()?)),
            Long("machines") => options.conditions.machines = arguments.value()?.parse()?,
            Long("servers") => options.conditions.servers = arguments.value()?.parse()?,
            Long("storm") => options.conditions.storm = Duration::from_secs(arguments.value()?.parse()?),
            Long("zookeeper") => {
                let name = arguments.value()?.string()?;
                let version = VERSIONS.iter().find(|(known, _)| *known == name).map(|(_, version)| *version);
                options.conditions.version = Some(version.ok_or_else(|| format!("no version {name:?}"))?);
            }
            Long("with") => options.conditions.with.push(fault(&arguments.value()?.string()?)?),
            Long("without") => options.conditions.without.push(fault(&arguments.value()?.string()?)?),
            Long("trace") => options.traces = true,
            Long("until-broken") => options.until_broken = true,
            Long("help") => {
                println!("{HELP}");
                std::process::exit(0);
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let (mut runs, mut violations, mut faults, mut operations, mut virtual_time) =
        (0, 0, 0, 0, Duration::ZERO);
    let mut counts = BTreeMap::<&str, u64>::new();
    let seeds = options.seeds.unwrap_or(if options.limit.is_some() { u64::MAX } else { 1 });
    let mut last = options.seed;
    'seeds: for seed in options.seed..options.seed.saturating_add(seeds) {
        for recipe in &options.recipes {
            let is_late = options.limit.is_some_and(|limit| start.elapsed() > limit);
            if is_late || options.until_broken && violations > 0 {
                break 'seeds;
            }
            last = seed;
            let plan = Plan::of_seed(seed, &options.conditions);
            let report = world::play(plan, *recipe, options.traces);
            runs += 1;
            violations += report.violations.len();
            faults += report.counts.get("faults").copied().unwrap_or_default();
            operations += report.counts.get(recipe.operations).copied().unwrap_or_default();
            virtual_time += report.elapsed;
            if seeds == 1 || !report.violations.is_empty() {
                tell(recipe, &report);
            }
            let is_first = violations > 0 && violations == report.violations.len();
            if is_first && !options.until_broken && !options.traces {
                tell_least(seed, *recipe, &options.conditions);
            }
            for (what, number) in report.counts {
                *counts.entry(what).or_default() += number;
            }
        }
    }
    let took = start.elapsed().as_secs_f64();
    let hours = virtual_time.as_secs_f64() / 3600.0;
    println!("seeds {} to {last}, {hours:.1} virtual hours, {counts:?}", options.seed);
    let rate = operations as f64 / took;
    println!("{runs} runs, {operations} operations, {faults} faults, {violations} violations, {rate:.0}/s");
    if violations > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Leaves out what a broken promise does not need.
fn least(seed: u64, recipe: Recipe, conditions: &Conditions) -> Conditions {
    let is_broken =
        |less: &Conditions| !world::play(Plan::of_seed(seed, less), recipe, false).violations.is_empty();
    let mut least = conditions.clone();
    for fault in Fault::ALL {
        if !least.with.contains(&fault) && Plan::of_seed(seed, &least).has(fault) {
            let mut less = least.clone();
            less.without.push(fault);
            if is_broken(&less) {
                least = less;
            }
        }
    }
    let half =
        |of: &Conditions| Conditions { storm: Duration::from_secs(of.storm.as_secs() / 2), ..of.clone() };
    let one_less = |of: &Conditions| Conditions { machines: of.machines - 1, ..of.clone() };
    while least.storm.as_secs() > 1 && is_broken(&half(&least)) {
        least = half(&least);
    }
    while least.machines > 1 && is_broken(&one_less(&least)) {
        least = one_less(&least);
    }
    least
}

fn tell_least(seed: u64, recipe: Recipe, conditions: &Conditions) {
    let least = least(seed, recipe, conditions);
    let Conditions { machines, servers, storm, with, without, version } = &least;
    println!("with less:");
    print!("    play --recipe {} --seed {seed} --machines {machines}", recipe.name);
    print!(" --servers {servers} --storm {}", storm.as_secs());
    let names = VERSIONS.iter().filter(|(_, known)| Some(known) == version.as_ref());
    names.for_each(|(name, _)| print!(" --zookeeper {name}"));
    with.iter().for_each(|fault| print!(" --with {}", fault.name()));
    without.iter().for_each(|fault| print!(" --without {}", fault.name()));
    println!(" --trace");
    let mut report = world::play(Plan::of_seed(seed, &least), recipe, true);
    let first = report.lines.iter().position(|line| line.text.starts_with("VIOLATION"));
    report.lines.truncate(first.map_or(0, |first| first + 1));
    report.lines.drain(..report.lines.len().saturating_sub(LINES));
    tell(&recipe, &report);
}

fn tell(recipe: &Recipe, report: &Report) {
    println!("{}, {}", recipe.name, report.plan);
    println!("    fingerprint {:016x}, {:?}", report.fingerprint, report.counts);
    for line in &report.lines {
        println!("{:12.6} {}", line.at.as_secs_f64(), line.text);
    }
    for violation in report.violations.iter().take(5) {
        println!("    BROKEN: {violation}");
    }
}
