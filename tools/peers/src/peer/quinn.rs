//! QUIC: quinn on a tokio runtime of one thread. Inputs and snapshots are unreliable datagrams, events go on one stream per
//! client, all encrypted as QUIC always is. As programs on tokio do, the server sleeps in the runtime, so that whatever
//! arrives is dealt with as it comes; or, in ticks, it lets the runtime run at its tick only.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, SendStream, ServerConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::task::yield_now;

use crate::pace::{Guest, Host};
use crate::work::{EVENT_BYTES, Job, Tally};

/// A runtime and the tasks in it.
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// For programs that sleep in it.
    fn new() -> Result<Self, String> {
        Self::build(&mut tokio::runtime::Builder::new_current_thread())
    }

    /// For programs that let it run when they please: it looks for what has arrived only after all tasks have run.
    pub fn new_in_ticks() -> Result<Self, String> {
        Self::build(tokio::runtime::Builder::new_current_thread().event_interval(1 << 20))
    }

    fn build(builder: &mut tokio::runtime::Builder) -> Result<Self, String> {
        builder.enable_all().build().map(Self).map_err(|error| error.to_string())
    }

    /// Lets everything run that can, without waiting.
    fn turn(&self, times: usize) {
        self.0.block_on(async {
            for _ in 0..times {
                yield_now().await;
            }
        });
    }
}

/// Turns until what was received has gone through endpoint, connection and task, or what is to be sent the other way.
const TURNS: usize = 4;

pub struct QuinnHost {
    runtime: Runtime,
    endpoint: Endpoint,
    shared: Arc<Shared>,
    /// Whether the runtime runs at the tick only.
    is_in_ticks: bool,
    event: Option<[u8; EVENT_BYTES]>,
}

/// What the server's tasks tell.
#[derive(Default)]
struct Shared {
    inputs: AtomicU64,
    clients: Mutex<Vec<Client>>,
}

struct Client {
    connection: Connection,
    events: SendStream,
}

impl QuinnHost {
    pub fn bind(job: &Job, is_in_ticks: bool) -> Result<Self, String> {
        let runtime = if is_in_ticks { Runtime::new_in_ticks()? } else { Runtime::new()? };
        let config = server_config()?;
        let open = async { Endpoint::server(config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))) };
        let endpoint = runtime.0.block_on(open).map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared::default());
        lock(&shared.clients).reserve(job.clients);
        let (door, told) = (endpoint.clone(), Arc::clone(&shared));
        runtime.0.spawn(async move {
            while let Some(incoming) = door.accept().await {
                let told = Arc::clone(&told);
                tokio::spawn(async move {
                    // Who is not let in is missing, and the counts tell.
                    let Ok(connection) = incoming.await else { return };
                    let Ok(events) = connection.open_uni().await else { return };
                    lock(&told.clients).push(Client { connection: connection.clone(), events });
                    while let Ok(datagram) = connection.read_datagram().await {
                        told.inputs.fetch_add(u64::from(datagram.len() == 1), Ordering::Relaxed);
                    }
                });
            }
        });
        Ok(Self { runtime, endpoint, shared, is_in_ticks, event: None })
    }
}

impl Host for QuinnHost {
    fn port(&self) -> u16 {
        self.endpoint.local_addr().map_or(0, |address| address.port())
    }

    fn sleep(&mut self, time: Duration) {
        if self.is_in_ticks {
            std::thread::sleep(time);
        } else {
            self.runtime.0.block_on(async { tokio::time::sleep(time).await });
        }
    }

    fn receive(&mut self) -> u64 {
        if self.is_in_ticks {
            loop {
                let before = self.shared.inputs.load(Ordering::Relaxed);
                self.runtime.turn(TURNS);
                if self.shared.inputs.load(Ordering::Relaxed) == before {
                    break;
                }
            }
        }
        self.shared.inputs.swap(0, Ordering::Relaxed)
    }

    fn clients(&self) -> usize {
        lock(&self.shared.clients).len()
    }

    fn send(&mut self, snapshot: &[u8], event: Option<&[u8]>) {
        for client in lock(&self.shared.clients).iter() {
            // What cannot be sent is lost; the clients' counts tell.
            let _ = client.connection.send_datagram(Bytes::copy_from_slice(snapshot));
        }
        self.event = event.and_then(|event| event.try_into().ok());
    }

    fn flush(&mut self) {
        if let Some(event) = self.event.take() {
            // Whoever comes in meanwhile is there afterwards.
            let mut clients = std::mem::take(&mut *lock(&self.shared.clients));
            self.runtime.0.block_on(async {
                for client in &mut clients {
                    let _ = client.events.write_all(&event).await;
                }
            });
            let mut shared = lock(&self.shared.clients);
            clients.append(&mut shared);
            *shared = clients;
        }
        if self.is_in_ticks {
            self.runtime.turn(TURNS);
        }
    }
}

pub struct QuinnGuest {
    runtime: Rc<Runtime>,
    _endpoint: Endpoint,
    shared: Arc<GuestShared>,
    place: Place,
}

/// Which of all clients one is: their runtime is one, and runs for all when the first receives and the last sends.
struct Place {
    is_first: bool,
    is_last: bool,
}

#[derive(Default)]
struct GuestShared {
    tally: Mutex<Tally>,
    connection: Mutex<Option<Connection>>,
}

/// Nobody fails while holding a lock of these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QuinnGuest {
    pub fn connect(runtime: &Rc<Runtime>, port: u16, number: usize, job: &Job) -> Result<Self, String> {
        let config = client_config()?;
        let open = async {
            let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            endpoint.set_default_client_config(config);
            Ok(endpoint)
        };
        let endpoint = runtime.0.block_on(open).map_err(|error: std::io::Error| error.to_string())?;
        let (door, shared) = (endpoint.clone(), Arc::new(GuestShared::default()));
        let told = Arc::clone(&shared);
        runtime.0.spawn(async move {
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let Ok(connecting) = door.connect(server, NAME) else { return };
            let Ok(connection) = connecting.await else { return };
            let (events, heard) = (connection.clone(), Arc::clone(&told));
            tokio::spawn(async move {
                let Ok(mut stream) = events.accept_uni().await else { return };
                let mut event = [0; EVENT_BYTES];
                while stream.read_exact(&mut event).await.is_ok() {
                    lock(&heard.tally).note(&event);
                }
            });
            *lock(&told.connection) = Some(connection.clone());
            while let Ok(datagram) = connection.read_datagram().await {
                lock(&told.tally).note(&datagram);
            }
        });
        let place = Place { is_first: number == 0, is_last: number + 1 == job.clients };
        Ok(Self { runtime: Rc::clone(runtime), _endpoint: endpoint, shared, place })
    }
}

impl Guest for QuinnGuest {
    fn receive(&mut self, tally: &mut Tally) {
        if self.place.is_first {
            self.runtime.turn(TURNS);
        }
        tally.add(std::mem::take(&mut *lock(&self.shared.tally)));
    }

    fn is_in(&self) -> bool {
        lock(&self.shared.connection).is_some()
    }

    fn send(&mut self, input: u8) {
        if let Some(connection) = &*lock(&self.shared.connection) {
            let _ = connection.send_datagram(Bytes::copy_from_slice(&[input]));
        }
    }

    fn flush(&mut self) {
        if self.place.is_last {
            self.runtime.turn(TURNS);
        }
    }
}

const NAME: &str = "localhost";

fn server_config() -> Result<ServerConfig, String> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(|error| error.to_string())?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())
        .map_err(|error| error.to_string())?;
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

fn client_config() -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    let quic = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
    Ok(ClientConfig::new(Arc::new(quic)))
}

/// Trusts every server: the only one here made its certificate itself.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
