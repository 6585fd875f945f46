//! The tests of `tests/timely`, without what they all begin and end with.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Makes a test of an `async fn` that is given a stage.
///
/// `#[history(one, (other, more))]` plays it several times, each time with these further arguments, and
/// `#[history(ensembles = 3)]` with several ensembles.
#[proc_macro_attribute]
pub fn history(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let mut cases: Vec<Vec<TokenTree>> = vec![Vec::new()];
    for token in arguments {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => cases.push(Vec::new()),
            _ => cases.last_mut().expect("a case").push(token),
        }
    }
    let mut ensembles = "1".to_owned();
    if matches!(&cases[0][..], [TokenTree::Ident(first), ..] if first.to_string() == "ensembles") {
        ensembles = cases.remove(0).remove(2).to_string();
    }
    if cases.len() > 1 && cases.last().is_some_and(Vec::is_empty) {
        cases.pop();
    } else if cases.is_empty() {
        cases.push(Vec::new());
    }
    let mut attributes: Vec<_> = function.into_iter().collect();
    let is_async =
        |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident.to_string() == "async");
    let start = attributes.iter().position(is_async).expect("an async fn");
    let function = attributes.split_off(start);
    let name = function[2].to_string();
    let mut body: TokenStream = function.into_iter().collect();
    for case in cases {
        let case = match <[TokenTree; 1]>::try_from(case) {
            Ok([TokenTree::Group(group)]) if group.delimiter() == Delimiter::Parenthesis => group.stream(),
            Ok([token]) => token.into(),
            Err(tokens) => tokens.into_iter().collect(),
        };
        body.extend(code(&format!("crate::stage::play({ensembles}, |stage| {name}(stage, {case}));")));
    }
    let test = code(&format!("#[test] fn {name}()"));
    let body = TokenTree::Group(Group::new(Delimiter::Brace, body));
    attributes.into_iter().chain(test).chain([body]).collect()
}

fn code(text: &str) -> TokenStream {
    text.parse().expect("code")
}
