//! `tickwire`: the server.

fn main() {}
