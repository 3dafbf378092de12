//! The whole tool on a small plan: processes, report and table.

use std::process::Command;

/// Eight clients for a second: what is sent arrives, for the floor and for tickwire over all protocols.
#[test]
fn the_floor_and_tickwire_deliver() {
    let svg = std::env::temp_dir().join(format!("tickwire-peers-{}.svg", std::process::id()));
    let page = svg.with_extension("md");
    std::fs::write(&page, "before\n<!-- peers: begin -->old<!-- peers: end -->\nafter\n").expect("a page");
    let output = Command::new(env!("CARGO_BIN_EXE_tickwire-peers"))
        .args([
            "--shared-net",
            "--peers",
            "floor,tickwire,tickwire-rtype,tickwire-fignet",
            "--clients",
            "8",
            "--rounds",
            "1",
            "--seconds",
            "1",
        ])
        // One processor is all that every machine has.
        .args(["--server-core", "0", "--client-core", "0", "--svg"])
        .arg(&svg)
        .arg("--write")
        .arg(&page)
        .output()
        .expect("the tool runs");
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for peer in ["floor", "tickwire", "tickwire-rtype", "tickwire-fignet"] {
        let start = format!("| 8 | {peer} | ");
        let row = table.lines().find(|line| line.starts_with(&start)).expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let delivery: Vec<f64> = cells[9].split(" / ").map(|cell| cell.parse().expect("a number")).collect();
        assert_eq!(delivery.len(), 3, "{row}");
        assert!(delivery.iter().all(|&percent| percent > 95.0 && percent < 105.0), "{row}");
        let cpu: f64 = cells[3].parse().expect("a number");
        let ratio: f64 = cells[4].split(' ').next().expect("a median").parse().expect("a number");
        assert!(cpu > 0.0 && ratio > 0.0 && ratio.is_finite(), "{row}");
    }
    let chart = std::fs::read_to_string(&svg).expect("a chart");
    std::fs::remove_file(&svg).expect("it is there");
    assert!(chart.starts_with("<svg") && chart.ends_with("</svg>\n"));
    assert_eq!(chart.matches("<rect").count(), 5, "the ground and four bars");
    let written = std::fs::read_to_string(&page).expect("the page");
    std::fs::remove_file(&page).expect("it is there");
    let table = table.trim();
    assert!(
        written.contains(table)
            && written.contains("--shared-net --peers floor,tickwire,tickwire-rtype,tickwire-fignet"),
        "{written}"
    );
    assert!(
        written.starts_with("before\n<!--") && written.ends_with("-->\nafter\n") && !written.contains("old")
    );
}

/// One reliable flow: everything comes once and in order.
#[test]
fn reliable_messages_flow() {
    let output = Command::new(env!("CARGO_BIN_EXE_tickwire-peers"))
        .args(["--goodput", "--shared-net", "--rounds", "1", "--seconds", "1", "--server-core", "0"])
        .args(["--client-core", "0", "--peers", "tickwire-fignet"])
        .output()
        .expect("the tool runs");
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = table.lines().find(|line| line.starts_with("| tickwire-fignet |")).expect("a row");
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let goodput: f64 = cells[2].parse().expect("a number");
    assert!(goodput > 1.0, "{row}");
    assert_eq!(cells[6..8], ["0.00", "0"], "no allocations, no faults: {row}");
}

/// A peer that is not there is said to be missing, and nothing else is made of it.
#[test]
fn an_unknown_peer_fails() {
    let output = Command::new(env!("CARGO_BIN_EXE_tickwire-peers"))
        .args(["--shared-net", "--peers", "nobody", "--clients", "1", "--rounds", "1", "--seconds", "1"])
        .output()
        .expect("the tool runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no peer nobody"));
}
