//! Shows that a false leader would be seen.

use std::sync::Arc;

use crate::LONGEST_GAP;
use crate::candidate::{Candidate, Origin, Race};
use crate::history::{History, Story};
use crate::stage::{Recipe, Stage};
use crate::support::within;
use crate::verdict::Case;
use crate::witness::Witness;

/// One of each library leads at a path where nobody else stands, and says that it leads those who stand here.
pub(crate) async fn detects_saboteurs(stage: &Stage) {
    let race = |recipe, path: &str, history: &Arc<History>| Race {
        recipe,
        connect_string: stage.server.connect_string(),
        path: path.to_owned(),
        history: history.clone(),
    };
    for recipe in Recipe::ALL {
        let history: Arc<History> = Arc::default();
        let path = format!("/election/check-{}", recipe.word());
        let witness = Witness::of(&stage.bystander, &path, &history);
        let here = race(recipe, &path, &history);
        let honest =
            ["honest-1", "honest-2"].map(|name| Candidate::start(&here, Origin::Here, name.to_owned()));
        let origins = [Origin::Here].into_iter().chain(stage.peers.last().cloned());
        let saboteurs: Vec<_> = origins
            .map(|origin| {
                let name = format!("{:?}-saboteur", origin.library());
                Candidate::start(&race(recipe, &format!("{path}-{name}"), &history), origin, name)
            })
            .collect();
        let names: Vec<_> = saboteurs.iter().map(|saboteur| saboteur.name.clone()).collect();
        // All look after all have begun.
        let all_lead = |story: &Story| {
            let begun = story.terms.iter().map(|term| term.from).max()?;
            let leads = |is_it: &dyn Fn(&Arc<str>) -> bool| {
                story.terms.iter().any(|term| term.until > begun && is_it(&term.candidate))
            };
            let is_honest = |candidate: &Arc<str>| !names.contains(candidate);
            let all_lead =
                names.iter().all(|name| leads(&|candidate| candidate == name)) && leads(&is_honest);
            all_lead.then_some(())
        };
        within(history.wait_for(all_lead)).await;
        for candidate in saboteurs.into_iter().chain(honest) {
            candidate.end().await;
        }
        let (story, seen) = (history.take(), witness.seen());
        let case = Case { story: &story, seen: &seen, downtimes: &[], longest_gap: LONGEST_GAP };
        let verdict = case.judge();
        for name in &names {
            let caught = verdict.caught(name);
            assert!(caught > 0, "{name} leads without being elected, and nobody sees it");
            println!(
                "self-check, {}: {name} leads without being elected, seen {caught} times",
                recipe.word()
            );
        }
        let honest = verdict.faults.iter().filter(|fault| !names.iter().any(|name| fault.involves(name)));
        assert_eq!(honest.count(), 0, "the others are elected: {:#?}", verdict.faults);
    }
}
