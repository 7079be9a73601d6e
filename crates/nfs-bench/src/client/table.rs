//! The report as tables.

use super::plan::{Figures, Part, Row};
use super::run::Report;
use super::serve::Server;
use super::tool::{Tool, Work};
use super::verdict::verdicts;
use crate::summary::Summary;
use nfs_load::spread::{Spread, median, ratio};
use nfs_load::table::Table;

impl Report {
    /// The run as people read it: header, tables, goals, what is missing.
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            header: self.header_lines(),
            tables: self.tables(),
            verdicts: verdicts(self),
            missing: &self.missing,
        }
    }

    /// Lines that say on which machine and with which settings the figures were measured.
    fn header_lines(&self) -> Vec<String> {
        let h = &self.header;
        let mut lines = vec![
            h.machine.line("client"),
            format!(
                "large file {} MiB, {} small ones, all in memory (tmpfs); {} rounds, median (min..max); {:.0} s in all",
                h.file_bytes >> 20,
                h.files,
                h.rounds,
                h.run_seconds
            ),
            h.machine.others_line(&h.versions),
        ];
        if let Some(disk) = &h.disk {
            lines.push(format!(
                "the local disk is {disk}; what comes to it is on it before the clock stops, what comes from it is not in memory before"
            ));
        }
        if let Some(ceiling) = self.ceiling() {
            let of = |figure: fn(&super::ceiling::Ceiling) -> f64| {
                let gib = |c: &super::ceiling::Ceiling| c.bytes as f64 / f64::from(1 << 30);
                median(self.ceilings.iter().map(|c| figure(c) / gib(c))).unwrap_or(f64::NAN)
            };
            lines.push(format!(
                "loopback TCP carries {} MiB/s here, for {:.2} CPU s/GiB of the receiver and {:.2} of the sender",
                format_args!("{ceiling:.0}"),
                of(|c| c.receiver_seconds),
                of(|c| c.sender_seconds)
            ));
        }
        lines
    }

    /// Throughput of loopback TCP over the rounds, in MiB/s; `None` if it was not measured.
    pub fn ceiling(&self) -> Option<Spread> {
        Spread::of(self.ceilings.iter().map(|c| c.mib_per_second()))
    }

    /// The run's tables: one for each server and work of the comparison, and one for each series.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for server in [Server::Responder, Server::Penstock, Server::Ganesha] {
            for work in Work::ALL {
                let rows = self.of(Part::Compared, server, work);
                let title = format!("{} on {}", work.name(), server.name());
                tables.extend(self.table(title, &rows));
            }
        }
        for (part, word) in [
            (Part::Window, "by depth of the window"),
            (Part::Transfer, "by transfer size"),
            (Part::Connections, "by number of connections"),
            (Part::Memory, "a small file"),
            (Part::Disk, "local file on a disk"),
        ] {
            for server in [Server::Penstock, Server::Ganesha, Server::Distant] {
                for work in Work::ALL {
                    let rows = self.of(part, server, work);
                    let title = format!("{} on {}, {word}", work.name(), server.name());
                    tables.extend(self.table(title, &rows));
                }
            }
        }
        tables
    }

    /// The rows of one table that were measured.
    pub fn of(&self, part: Part, server: Server, work: Work) -> Vec<&Row> {
        let same = |row: &&Row| {
            let wanted = row.part == part && row.server == server && row.work == work;
            wanted && !row.rounds.is_empty()
        };
        self.rows.iter().filter(same).collect()
    }

    fn table(&self, title: String, rows: &[&Row]) -> Option<Table> {
        let first = rows.first()?;
        let many = first.work.is_many();
        let peer = rows.iter().find(|row| row.tool == Tool::Libnfs);
        let peer = peer.map(|row| row.rate().median);
        let rate = if many { "files/s" } else { "MiB/s" };
        let cpu = if many { "CPU ms/file" } else { "CPU s/GiB" };
        let faults = if many { "faults/file" } else { "faults/MiB" };
        let heading = [
            "",
            rate,
            "x libnfs",
            "x TCP",
            cpu,
            "user",
            "kernel",
            "server's",
            "RSS peak MiB",
            faults,
        ];
        let cells = |row: &&Row| {
            let ratio = |to: Option<f64>| ratio(Some(row.rate().median), to);
            let tcp = self.ceiling().map(|ceiling| ceiling.median);
            let per = |figure: fn(&Figures) -> f64| row.per(figure);
            let looped = many && row.tool == Tool::Libnfs;
            let kernel = row.tool == Tool::Kernel;
            vec![
                row.tool.name(row.work),
                format!("{:.0}", row.rate()),
                ratio(peer),
                ratio(tcp.filter(|_| !many)),
                format!("{:.2}", per(|f| f.client.user + f.client.system)),
                format!("{:.2}", per(|f| f.client.user)),
                format!("{:.2}", per(|f| f.client.system)),
                format!("{:.2}", per(|f| f.server_seconds)),
                // Neither the shell that runs the loop nor a guest's memory is what is meant.
                if looped || kernel {
                    "-".to_owned()
                } else {
                    format!("{:.1}", row.peak_mib())
                },
                if kernel {
                    "-".to_owned()
                } else {
                    format!("{:.1}", row.faults())
                },
            ]
        };
        Some(Table::new(title, &heading, rows.iter().map(cells)))
    }
}

impl Row {
    /// MiB/s of large files, files/s of small ones. Of a row that was measured.
    pub fn rate(&self) -> Spread {
        let rates = self.rounds.iter().map(|figures| {
            if self.work.is_many() {
                figures.files_per_second()
            } else {
                figures.mib_per_second()
            }
        });
        Spread::of(rates).unwrap_or(Spread {
            median: f64::NAN,
            min: f64::NAN,
            max: f64::NAN,
        })
    }

    /// The client's largest resident memory of any round, in MiB.
    pub fn peak_mib(&self) -> f64 {
        let peaks = self.rounds.iter().map(|figures| figures.client.peak_bytes);
        peaks.max().unwrap_or(0) as f64 / f64::from(1 << 20)
    }

    /// Seconds per GiB of large files, milliseconds per small one: the median.
    fn per(&self, figure: fn(&Figures) -> f64) -> f64 {
        let each = self.rounds.iter().map(|figures| {
            if self.work.is_many() {
                figure(figures) * 1000.0 / figures.files as f64
            } else {
                figure(figures) * 1024.0 / figures.mib()
            }
        });
        median(each).unwrap_or(f64::NAN)
    }

    /// Page faults per MiB of large files, per file of small ones: the median.
    fn faults(&self) -> f64 {
        let each = self.rounds.iter().map(|figures| {
            let units = if self.work.is_many() {
                figures.files as f64
            } else {
                figures.mib()
            };
            figures.client.faults as f64 / units
        });
        median(each).unwrap_or(f64::NAN)
    }
}
