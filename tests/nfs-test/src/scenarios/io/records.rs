//! Records of 47008 bytes, a length that is a multiple of nothing: what streams of a parallel
//! program to one file look like to a server (IO500's "hard" pattern). Written in order and in no
//! order, many at once, so that every record's edges share pages with its neighbours.

use std::fs::File;

use anyhow::{Context as _, Result};
use bytes::{Bytes, BytesMut};
use fastrand::Rng;

use super::bed::{Bed, Client, DEPTH, Source, drop_cache, local_is, pipelined, same};
use crate::host::Context;
use crate::host::wire::ok;

/// Bytes of a record, of no alignment: WRITEs have edges and a middle everywhere in a page.
pub(super) const RECORD: usize = 47_008;

/// Runs on the export of `client`; returns how many bytes were moved.
pub(super) async fn run(
    context: &Context,
    bed: &Bed,
    client: &Client,
    mut random: Rng,
) -> Result<u64> {
    let count = if context.quick { 40 } else { 150 };
    let source = Source::new(random.fork(), 1 << 20);
    let mut moved = 0;
    for (name, shuffled, depth) in [
        ("records-in-order", false, 4),
        ("records-in-no-order", true, DEPTH),
    ] {
        let path = bed.path(name);
        File::create(&path)?;
        let file = client.find(name).await?;
        let mut records: Vec<(u64, Bytes)> = (0..count)
            .map(|i| (i * RECORD as u64, source.take(RECORD)))
            .collect();
        let mut model = BytesMut::new();
        for (_, record) in &records {
            model.extend_from_slice(record);
        }
        let model = model.freeze();
        if shuffled {
            for i in (1..records.len()).rev() {
                records.swap(i, random.usize(..i + 1));
            }
        }
        let (writer, how) = (client.clone(), source.clone());
        let written = pipelined(depth, records, move |(offset, data)| {
            let (client, stable) = (writer.clone(), how.stable());
            async move { client.write(&file, offset, stable, data).await.map(drop) }
        });
        written.await.with_context(|| name.to_owned())?;
        ok("COMMIT", client.nfs.commit(&file, 0, 0)).await?;
        drop_cache(&path)?;
        let (reader, expected) = (client.clone(), model.clone());
        let offsets: Vec<usize> = (0..count as usize).map(|i| i * RECORD).collect();
        let read = pipelined(depth, offsets, move |at| {
            let (client, expected) = (reader.clone(), expected.slice(at..at + RECORD));
            async move {
                let (data, _) = client.read(&file, at as u64, RECORD as u32).await?;
                same(&expected, &data).with_context(|| format!("the record at {at}"))
            }
        });
        read.await.with_context(|| name.to_owned())?;
        local_is(&path, 0, &model, model.len() as u64)?;
        std::fs::remove_file(&path)?;
        moved += 2 * model.len() as u64;
    }
    Ok(moved)
}
