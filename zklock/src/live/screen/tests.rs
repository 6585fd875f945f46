use ratatui::backend::TestBackend;
use serde_json::Value;

use super::*;

fn view(rows: usize) -> View {
    View {
        title: "/locks/a: mutex".into(),
        head: &["PLACE", "IDENTITY"],
        rows: (1..=rows).map(|place| vec![place.to_string(), format!("host-{place}")]).collect(),
        note: None,
        failure: None,
        json: Value::Null,
        state: Vec::new(),
        weight: 1,
    }
}

fn drawn(view: &View, from: usize) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(60, 7)).unwrap();
    terminal.draw(|frame| draw(frame, view, from)).unwrap();
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let lines =
        buffer.content.chunks(width).map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn a_view_has_a_title_a_table_and_a_foot() {
    let expected = [
        "/locks/a: mutex",
        "",
        "PLACE  IDENTITY",
        "1      host-1",
        "2      host-2",
        "",
        "q, Esc or Ctrl-C ends; arrows and pages scroll",
    ];
    assert_eq!(drawn(&view(2), 0), expected);
    assert_eq!(drawn(&view(9), 5)[3..6], ["6      host-6", "7      host-7", "8      host-8"]);
    let old = View { failure: Some("no server".into()), ..view(1) };
    assert_eq!(drawn(&old, 0)[6], "old: no server");
    // Smaller than anything fits in.
    let mut terminal = Terminal::new(TestBackend::new(3, 1)).unwrap();
    terminal.draw(|frame| draw(frame, &view(9), 0)).unwrap();
}

#[test]
fn the_last_columns_are_cut_where_there_is_no_room() {
    let wide = View { rows: vec![vec!["1".into(), "x".repeat(100)]], ..view(0) };
    assert_eq!(drawn(&wide, 0)[2..4], ["PLACE  IDENTITY".to_owned(), format!("1      {}", "x".repeat(53))]);
    assert_eq!(wide.widths(9, SPACING), [5, 2]);
    assert_eq!(wide.widths(7, SPACING), [5]);
    let mut terminal = Terminal::new(TestBackend::new(7, 7)).unwrap();
    terminal.draw(|frame| draw(frame, &wide, 0)).unwrap();
    assert_eq!(
        terminal.backend().buffer().content[14..21].iter().map(|cell| cell.symbol()).collect::<String>(),
        "PLACE  "
    );
}

#[test]
fn keys_mean_what_they_say() {
    let press = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
    for (code, modifiers) in [
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Esc, KeyModifiers::NONE),
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
    ] {
        assert_eq!(press(code, modifiers), Some(Key::End));
    }
    assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), None);
    assert_eq!(press(KeyCode::Down, KeyModifiers::NONE), Some(Key::Scroll(1)));
}
