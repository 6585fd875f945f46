//! What was done, in numbers.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::numbers;
use crate::outcome::Outcome;
use crate::scene::Show;
use crate::stage::Library;
use crate::{barriers_verdict, servers, texts, trouble};

fn troubles(network: &trouble::Figures, servers: &servers::Figures) -> [(usize, &'static str); 8] {
    let count = |count: &AtomicUsize, what| (count.load(SeqCst), what);
    [
        count(&network.cuts, "cuts"),
        count(&network.outages, "outages"),
        count(&network.kills, "sessions killed"),
        count(&servers.pauses, "pauses of the server"),
        count(&servers.restarts, "restarts"),
        count(&servers.lost, "requests or replies lost"),
        count(&servers.deleted, "kept nodes deleted by strangers"),
        count(&servers.overwritten, "overwritten"),
    ]
}

/// How many of these are of that library and have that outcome.
fn draws(show: &Show, library: Library, of: impl Fn(numbers::Outcome) -> bool) -> [usize; 4] {
    let count = |draws: &numbers::Draws| {
        let draws = draws.draws.lock().unwrap();
        draws.iter().filter(|draw| draw.library == library && of(draw.outcome)).count()
    };
    [0, 1, 2, 3].map(|number| count(&show.numbers[number]))
}

fn appends(show: &Show, library: Library, outcome: texts::Outcome) -> usize {
    let appends = show.texts.appends.lock().unwrap();
    appends.iter().filter(|append| append.library == library && append.outcome == outcome).count()
}

pub(crate) fn print(network: &trouble::Figures, servers: &servers::Figures, show: &Show, outcome: &Outcome) {
    let troubles = troubles(network, servers).map(|(count, what)| format!("{count} {what}"));
    println!("{}", troubles.join(", "));
    for library in [Library::Ours, Library::Curator] {
        let [mixed, promoted, count, ours] =
            draws(show, library, |outcome| matches!(outcome, numbers::Outcome::Drawn(_)));
        let unknown = draws(show, library, |outcome| outcome == numbers::Outcome::Unknown);
        let refused = draws(show, library, |outcome| outcome == numbers::Outcome::Refused);
        println!(
            "{library:?}: numbers drawn: {mixed} mixed, {promoted} promoted, {count} of the count, {ours} of ours alone; \
             {unknown:?} unknown, {refused:?} refused"
        );
        let of = |outcome| appends(show, library, outcome);
        let [done, unknown, refused] =
            [texts::Outcome::Done, texts::Outcome::Unknown, texts::Outcome::Refused].map(of);
        println!("{library:?}: {done} appends, {unknown} unknown, {refused} refused");
    }
    let rounds = show.rounds.0.lock().unwrap();
    let passages = rounds.iter().flat_map(|round| &round.passages);
    let [mut together, mut lost, mut stranded] = [0; 3];
    for passage in passages {
        together += usize::from(passage.left.is_some());
        lost += usize::from(passage.is_lost);
        stranded += usize::from(passage.is_stranded);
    }
    println!(
        "{} texts, {} rounds of barriers: {together} members left together, {lost} were lost or dropped, {stranded} were \
         left behind without their session; {} times one came again when others had left",
        show.texts.count(),
        rounds.len(),
        barriers_verdict::late(&rounds)
    );
    let told: Vec<_> = show.caches.iter().map(|cache| (cache.told.load(SeqCst), cache.resets())).collect();
    println!(
        "{} nodes in the end, {} kept by us and {} by peers; events and resets of the caches: {told:?}",
        outcome.nodes, outcome.kept.0, outcome.kept.1
    );
    println!("by peers, missing, wrong or left behind: {:?}", outcome.of_peers);
}

/// A run that did nothing shows nothing. On a busy machine it does little.
pub(crate) fn assert_enough(
    network: &trouble::Figures,
    servers: &servers::Figures,
    show: &Show,
    is_long: bool,
    has_peers: bool,
) {
    if is_long {
        for (count, what) in troubles(network, servers) {
            assert!(count > 0, "no {what}");
        }
    }
    let is_drawn = |outcome| matches!(outcome, numbers::Outcome::Drawn(_));
    assert!(draws(show, Library::Ours, is_drawn).iter().all(|count| *count > 20));
    assert!(appends(show, Library::Ours, texts::Outcome::Done) > 20);
    if has_peers {
        assert!(draws(show, Library::Curator, is_drawn)[..3].iter().all(|count| *count > 2));
        assert!(appends(show, Library::Curator, texts::Outcome::Done) > 2);
    }
    assert!(show.rounds.0.lock().unwrap().len() > 5);
    assert!(show.caches.iter().all(|cache| cache.told.load(SeqCst) > 50));
}
