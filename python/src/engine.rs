//! The threads of a session, and the one place where Python waits for them.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::errors;
use crate::limits::{SIGNALS_EVERY, THREADS};

/// The threads that connections run on. They are this process's: a child that was forked does not have them, and neither
/// waits for them nor ends them.
pub(crate) struct Engine {
    process: u32,
    runtime: Option<Runtime>,
}

impl Engine {
    /// Starts the threads.
    pub(crate) fn start() -> PyResult<Arc<Self>> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("penstock");
        let runtime = builder.enable_all().build()?;
        Ok(Arc::new(Self {
            process: std::process::id(),
            runtime: Some(runtime),
        }))
    }

    /// Whether this is the process that the threads were started in.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Waits for `future` without holding up Python's other threads. Python's signals are heeded meanwhile: an exception of
    /// a handler, such as `KeyboardInterrupt`, gives the call up, which the server may carry out all the same.
    pub(crate) fn wait<T, E>(
        &self,
        py: Python<'_>,
        future: impl Future<Output = Result<T, E>> + Send,
    ) -> PyResult<T>
    where
        T: Send,
        E: Into<PyErr> + Send,
    {
        let runtime = self.runtime()?;
        py.detach(|| {
            // What the future holds may end with it, and ends on its threads.
            let _on_its_threads = runtime.enter();
            let waited = catch_unwind(AssertUnwindSafe(|| {
                let mut future = pin!(future);
                loop {
                    let look = async { timeout(SIGNALS_EVERY, &mut future).await };
                    match runtime.block_on(look) {
                        Ok(outcome) => return outcome.map_err(Into::into),
                        // Outside of the runtime: a handler may use a file system, too.
                        Err(_) => Python::attach(|py| py.check_signals())?,
                    }
                }
            }));
            waited.unwrap_or_else(|_| {
                Err(PyRuntimeError::new_err(
                    "the NFS client failed inside (a defect of penstock; standard error has its message)",
                ))
            })
        })
    }

    fn runtime(&self) -> PyResult<&Runtime> {
        let runtime = self.runtime.as_ref().filter(|_| self.is_ours());
        runtime.ok_or_else(errors::forked)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            if self.is_ours() {
                runtime.shutdown_background();
            } else {
                mem::forget(runtime);
            }
        }
    }
}

/// What runs on an engine's threads, until it is taken. It ends on them; in a forked child it does not end at all.
pub(crate) struct Running<T> {
    value: Mutex<Option<T>>,
    engine: Arc<Engine>,
}

impl<T: Clone> Running<T> {
    /// `value`, which was made on `engine`.
    pub(crate) fn new(engine: &Arc<Engine>, value: T) -> Self {
        Self {
            value: Mutex::new(Some(value)),
            engine: engine.clone(),
        }
    }

    /// Its threads.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// A clone of it; an error if it was taken, and in a forked child.
    pub(crate) fn get(&self) -> PyResult<T> {
        self.lock()?.clone().ok_or_else(errors::closed)
    }

    /// It itself, if nobody has taken it before.
    pub(crate) fn take(&self) -> PyResult<Option<T>> {
        Ok(self.lock()?.take())
    }

    /// Not in a child: who held the lock while the process was forked does not let it go there.
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<T>>> {
        self.engine.runtime()?;
        Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner);
        let value = value.take();
        match self.engine.runtime() {
            Ok(runtime) => {
                let _on_its_threads = runtime.enter();
                drop(value);
            }
            Err(_) => mem::forget(value),
        }
    }
}
