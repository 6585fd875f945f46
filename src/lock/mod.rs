//! The locks, and the guards by which they are held.

mod acquiring;
mod deadline;
mod holding;
mod inter_process_lock;
mod locks;
mod methods;
mod multi;
mod mutex;
mod node_name;
mod operating;
mod options;
mod owner;
mod read_write;
mod semaphore;
mod semaphore_mutex;

pub(crate) use self::acquiring::attempt::{Contending, Entry, granted};
pub(crate) use self::acquiring::reentrant::Reentrant;
pub use self::acquiring::ticket::Ticket;
pub use self::holding::guard::LockGuard;
pub use self::holding::state::{LockState, SuspectPolicy};
pub use self::holding::transaction::Transaction;
pub use self::inter_process_lock::InterProcessLock;
pub use self::locks::Locks;
pub use self::multi::MultiLock;
pub use self::mutex::InterProcessMutex;
pub(crate) use self::operating::participant;
pub use self::operating::participant::Participant;
pub use self::operating::revoke::{Revoker, force_release, force_release_participant};
pub(crate) use self::operating::revoke::{election_of_latch, request_to_latch};
pub use self::options::LockOptions;
pub use self::owner::Owner;
pub use self::read_write::{ReadLock, ReadWriteLock, WriteLock};
pub use self::semaphore::Semaphore;
pub use self::semaphore_mutex::SemaphoreMutex;
