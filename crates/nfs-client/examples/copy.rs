//! Trees, as cp(1) copies them, with a report for each file and the sums while it runs.
//!
//!     cargo run -p nfs-client --example copy -- SOURCE DESTINATION
//!
//! Each is a path of this host or a URL, nfs://HOST[:PORT]/EXPORT/PATH. Given the same words again after it was interrupted, it
//! goes on.

use std::time::Duration;

use nfs_client::MountOptions;
use nfs_client::transfer::{self, Event, Existing, Options, Place, Preserve, Watch};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [source, destination] = words.as_slice() else {
        return Err("give SOURCE DESTINATION".into());
    };
    let (source, destination) = (place(source).await?, place(destination).await?);
    let options = Options {
        recursive: true,
        preserve: Preserve::ALL,
        existing: Existing::Resume,
        ..Options::default()
    };
    let watch = Watch::new(|event| {
        if let Event::Failed(error) = event {
            eprintln!("{error}");
        }
    });
    let sources = [source];
    let copy = transfer::copy(&sources, &destination, &options, &watch);
    tokio::pin!(copy);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let figures = loop {
        tokio::select! {
            figures = &mut copy => break figures?,
            _ = second.tick() => println!("{} bytes", watch.figures().bytes_done),
            // What is on its way is brought to stable storage, and nothing more is begun.
            _ = tokio::signal::ctrl_c() => watch.stop(),
        }
    };
    println!("{} files, {} failed", figures.files_done, figures.failed);
    Ok(())
}

async fn place(word: &str) -> Result<Place, Box<dyn std::error::Error>> {
    if !word.contains("://") {
        return Ok(Place::local(word));
    }
    Ok(Place::mount(&word.parse()?, &MountOptions::default()).await?)
}
