//! Targets that opted out, counted by rule and by the host whose robots.txt forbids them.

use rusqlite::{Connection, params};

use crate::journal::database::schema;
use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::limits::OPT_OUT_HOSTS_MAX;
use fetchmill_model::outcome::opt_out_rule::{OptOutCounts, OptOutRule};
use fetchmill_model::outcome::skips::Skips;

/// Entry for all hosts after the first [`OPT_OUT_HOSTS_MAX`].
const OTHERS: &str = "";

impl Journal {
    /// Adds the opt-outs of a commit record, as part of its transaction.
    pub(in crate::journal) fn note_opt_outs(&self, skips: &Skips) -> Result<()> {
        skips.opt_outs().map_or(Ok(()), |counts| self.check(add(&self.db, counts)))
    }

    /// Returns the opt-outs of the job. Older releases did not count them.
    pub fn opt_outs(&self) -> Result<OptOutCounts> {
        self.check(read(&self.db))
    }
}

fn add(db: &Connection, counts: &OptOutCounts) -> rusqlite::Result<()> {
    for (rule, count) in counts.rules() {
        let add = "INSERT INTO opted_out VALUES (?1, ?2) ON CONFLICT DO UPDATE SET count = count + ?2";
        db.prepare_cached(add)?.execute(params![rule.name(), count as i64])?;
    }
    let hosts = counts.hosts();
    if hosts.len() == 0 {
        return Ok(());
    }
    let count = "SELECT count(*) FROM opted_out_hosts WHERE host != ?";
    let mut known: usize = db.query_row(count, [OTHERS], |row| row.get::<_, i64>(0))? as usize;
    for (host, count) in hosts {
        let update = "UPDATE opted_out_hosts SET count = count + ?2 WHERE host = ?1";
        if db.prepare_cached(update)?.execute(params![host, count as i64])? > 0 {
            continue;
        }
        let is_counted = known < OPT_OUT_HOSTS_MAX;
        known += usize::from(is_counted);
        add_host(db, if is_counted { host } else { OTHERS }, count)?;
    }
    if counts.has_other_hosts() {
        add_host(db, OTHERS, 0)?;
    }
    Ok(())
}

fn add_host(db: &Connection, host: &str, count: u64) -> rusqlite::Result<()> {
    let add = "INSERT INTO opted_out_hosts VALUES (?1, ?2) ON CONFLICT DO UPDATE SET count = count + ?2";
    db.prepare_cached(add)?.execute(params![host, count as i64]).map(drop)
}

/// Reads the opt-outs. The journal of an older release does not contain these tables until a job writes to it.
pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<OptOutCounts> {
    let mut counts = OptOutCounts::default();
    if !schema::has_table(db, "opted_out")? {
        return Ok(counts);
    }
    let mut query = db.prepare("SELECT rule, count FROM opted_out")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        // Omit rules that only newer releases know.
        if let Some(rule) = OptOutRule::ALL.iter().find(|rule| rule.name() == name) {
            counts.add_rule(*rule, row.get::<_, i64>(1)? as u64);
        }
    }
    let mut query = db.prepare("SELECT host, count FROM opted_out_hosts")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        match row.get::<_, String>(0)?.as_str() {
            OTHERS => counts.note_other_hosts(),
            host => _ = counts.add_host(host, row.get::<_, i64>(1)? as u64),
        }
    }
    Ok(counts)
}
