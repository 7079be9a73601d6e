//! What the state may grow to at most, and why. Where one is reached, the request is refused with
//! [`Error::Resource`](crate::Error::Resource) or [`Error::Delay`](crate::Error::Delay) and counted
//! ([`Counters`](crate::Counters)).

/// Bytes of an owner's name: NFS4_OPAQUE_LIMIT (RFC 8881 §3.2).
pub const OWNER_BYTES_MAX: usize = 1024;
/// Bytes that a driver describes a principal with: a flavour and a number, or a Kerberos name.
pub const PRINCIPAL_BYTES_MAX: usize = 512;

/// Confirmed clients. One costs about 1 KiB when idle, so this is 64 MiB; a cluster has thousands.
pub const CLIENTS_MAX: usize = 65_536;
/// What one host may hold of clients, sessions, opens, lock stateids, locked ranges and kept replies, as a multiple of
/// what this leaves free: half of all where it is alone. Who holds nothing finds room.
pub const STATE_TIMES_FREE_MAX: usize = 1;
/// Clients of one host that are looked at, for one more of it, to find one that can give way. The next request looks at
/// the next ones.
pub const GIVING_WAY_LOOKED_AT_MAX: usize = 64;
/// Milliseconds for which a client that holds nothing must have been silent to give way to another of its host.
pub const GIVING_WAY_SILENT_MS_MIN: u64 = 1000;
/// Clients that said EXCHANGE_ID and no more. Beyond it the one that was asked for longest ago is forgotten, of the same
/// host if that has its share, else of the host that has most: a flood of them costs those in the flood their place,
/// and no confirmed client anything.
pub const UNCONFIRMED_MAX: usize = 1024;
/// Numbers of clients in one life of the server: 28 bits of a stateid. Past it they begin anew, without those
/// in use.
pub const CLIENT_INDEX_MAX: u32 = (1 << 28) - 1;
/// Sessions of one client. Kernel clients have one; one more while a lost one is replaced.
pub const SESSIONS_PER_CLIENT_MAX: usize = 16;
/// Sessions of all clients: one for each, and another one for half of them. About 1 KiB each, and 5 when all slots were
/// used.
pub const SESSIONS_MAX: usize = CLIENTS_MAX / 2 * 3;
/// Connections of one session: `nconnect` goes to 16 on Linux, times the addresses of a trunk.
pub const CONNECTIONS_PER_SESSION_MAX: usize = 64;

/// Slots of a session: what Linux asks for. More calls of one session are never in progress at once.
pub const SLOTS_MAX: u32 = 64;
/// Slots that are made at once when the first of them is used, so that an idle mount costs one such piece.
pub const SLOTS_PER_PIECE: u32 = 8;
/// Operations of a COMPOUND. Linux asks for 8; the RFC sets no limit.
pub const OPERATIONS_MAX: u32 = 64;
/// Bytes of a channel's calls and replies below which SEQUENCE, a handle and one operation with a short name do
/// not fit; a client that asks for less is told so (NFS4ERR_TOOSMALL).
pub const CHANNEL_BYTES_MIN: u32 = 256;
/// Operations of a callback: CB_SEQUENCE and one that it is sent for.
pub const CALLBACK_OPERATIONS_MIN: u32 = 2;
/// Slots of a way back that are tried, one after the other, with a client that counts its calls differently than the
/// server.
pub const BACK_SLOTS_MAX: u32 = 4;
/// Bytes of one reply that is kept for a retry. Linux asks for 7584; replies that must be kept are far smaller.
pub const CACHED_REPLY_BYTES_MAX: u32 = 8192;
/// Bytes of replies that a session may keep whatever others do: a client's one slot works on when memory
/// is used up.
pub const SESSION_REPLY_BYTES_ASSURED: usize = 8192;
/// Bytes of replies that all sessions together get in that way; beyond, a request whose reply is to be kept is
/// put off.
pub const REPLY_BYTES_ASSURED_MAX: usize = 64 << 20;
/// Milliseconds of renewal time without one right sequence on a slot after which the session is declared
/// bad, as a multiple of the lease: a client that lost count recovers with a new session.
pub const MISORDERED_LEASES_MAX: u64 = 1;

/// Opens of one client. At about 300 bytes each a client can take 80 MiB with them.
pub const OPENS_PER_CLIENT_MAX: usize = 262_144;
/// Opens of all clients: about 600 MiB.
pub const OPENS_MAX: usize = 2 << 20;
/// Lock stateids of one client.
pub const LOCK_STATES_PER_CLIENT_MAX: usize = 65_536;
/// Lock stateids of all clients, of about 300 bytes each.
pub const LOCK_STATES_MAX: usize = 512 << 10;
/// Ranges that are locked by all clients in all files, of about 100 bytes each.
pub const RANGES_MAX: usize = 1 << 20;
/// Ranges that are locked in one file by all together. Each request looks through them in order.
pub const RANGES_PER_FILE_MAX: usize = 16_384;
/// Changes of a file's locks that wait for the host at once; the driver does them one by one, so this many
/// calls stand in its queue.
pub const PENDING_PER_FILE_MAX: usize = 256;
/// Requests that wait for a range of one file; a further one asks again by itself. Each unlock holds all of them
/// against each other and against the locked ranges.
pub const WAITERS_PER_FILE_MAX: usize = 256;
/// Requests of one client that wait for ranges, in all files.
pub const WAITERS_PER_CLIENT_MAX: usize = 4096;
/// Requests of all clients that wait for ranges, of about 200 bytes each and at most 1.2 KiB.
pub const WAITERS_MAX: usize = 65_536;
/// Locks of a client whose lease is over that one tick looks at, for somebody who waits in their files; who does has to
/// ask again by itself beyond it.
pub const LOCKS_LOOKED_AT_MAX: usize = 1024;
/// Milliseconds that a waiter has for taking the range it was notified of, before others may. Notice and LOCK
/// are one round trip each.
pub const CLAIM_MS_MAX: u64 = 500;
/// Milliseconds after which a waiter that has not asked again is forgotten: Linux asks each 30 s at the latest.
pub const WAITER_MS_MAX: u64 = 90_000;

/// Clients whose lease is over and who keep their state all the same. Beyond it, of each host that has more than its
/// equal part the one is expired that has been away longest.
pub const COURTESY_MAX: usize = 10_000;
/// Milliseconds that a client is kept after its lease: a day, as nfsd does.
pub const COURTESY_MS_MAX: u64 = 86_400_000;
/// Clients that one tick looks at for expiry; the others have their turn a second later.
pub const EXPIRIES_PER_TICK_MAX: usize = 256;

/// Changes of verifier back and forth within a minute from which two machines are taken to have one name. A
/// machine that restarts again and again never comes back to an earlier verifier.
pub const ALTERNATIONS_PER_MINUTE_MAX: u32 = 3;

/// Records of an earlier life that are taken in. The driver never wrote more than there were clients.
pub const RECORDS_MAX: usize = CLIENTS_MAX;
