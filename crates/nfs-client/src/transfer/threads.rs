//! Work of this host's file system, on threads that may block.

use tokio::task::JoinHandle;

/// Runs `work` on a thread that may block. A panic there is one here.
pub(super) async fn blocking<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    joined(tokio::task::spawn_blocking(work)).await
}

/// Waits for `thread` to end and returns what it came to. A panic there is one here.
pub(super) async fn joined<T>(thread: JoinHandle<T>) -> T {
    match thread.await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is going away, and this task with it: nobody waits for the value.
        Err(_) => std::future::pending().await,
    }
}
