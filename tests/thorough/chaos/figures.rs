//! What was seen, in numbers.

use std::collections::HashSet;
use std::sync::atomic::Ordering::SeqCst;

use crate::clock::seconds;
use crate::contested::Contested;
use crate::history::Section;
use crate::stage::Library;
use crate::trouble;
use crate::verdict::{Conflict, Verdict};

pub(crate) fn print(sections: &[Section], trouble: &trouble::Figures) {
    let [cuts, outages, kills] =
        [&trouble.cuts, &trouble.outages, &trouble.kills].map(|count| count.load(SeqCst));
    println!("{cuts} cuts, {outages} outages, {kills} sessions killed");
    for library in [Library::Ours, Library::Curator, Library::Kazoo] {
        let own: Vec<_> = sections.iter().filter(|section| section.participant.library == library).collect();
        if own.is_empty() {
            continue;
        }
        let on = |contested| own.iter().filter(|section| section.contested == contested).count();
        let [mutex, read_write, leadership] = Contested::ALL.map(on);
        let proofs =
            own.iter().filter_map(|section| Some((&*section.participant.name, section.proof.as_ref()?)));
        let sessions: HashSet<_> = proofs.map(|(name, proof)| (name, proof.session)).collect();
        let clients: HashSet<_> = sessions.iter().map(|(name, _)| name).collect();
        let lost = sessions.len() - clients.len();
        let longest = own.iter().map(|section| section.from - section.asked).max().unwrap_or_default();
        println!(
            "{library:?}: {mutex} grants of the mutex, {read_write} of the read/write lock and {leadership} of the \
             leadership, {lost} sessions lost, longest wait {:.1} s",
            seconds(longest)
        );
    }
}

pub(crate) fn print_verdict(verdict: &Verdict<'_>, left_behind: usize, losses: usize) {
    let Verdict { double_grants, disorders, without_node, excused, mere_beliefs } = verdict;
    let ours = |conflicts: &[Conflict<'_>]| conflicts.iter().filter(|one| one.is_our_fault()).count();
    let ([doubles, disorder], without_node) =
        ([double_grants, disorders].map(|all| ours(all)), without_node.len());
    println!(
        "by us: {doubles} double grants, {disorder} tokens out of order, {without_node} guards valid without a node; \
         {losses} knew that they had lost the lock, {excused} had not heard yet that their session was killed"
    );
    println!(
        "by peers: {} double grants, {} tokens out of order, {left_behind} nodes left behind; {mere_beliefs} times one \
         believed to hold, without a node, beside one of ours",
        double_grants.len() - doubles,
        disorders.len() - disorder
    );
}
