//! FigNet from end to end: a host and clients over seeded networks (docs/protocol/fignet.md).

mod fignet {
    mod connection;
    mod fragments;
    mod net;
    mod reliability;
    mod stress;
}
