//! The notice about the files that a restart removed.

use super::job_plan::JobPlan;
use super::preflight::bytes_text;
use fetchmill_model::text::counts::with_commas;
use fetchmill_store::restart::Removed;

impl JobPlan {
    /// Returns a notice about the files of an earlier job that were removed.
    pub(crate) fn notice_of_restart(&self) -> Option<String> {
        let Removed { files, bytes, left } = self.removed?;
        let unit = |count| if count == 1 { "file" } else { "files" };
        let left = match left {
            0 => String::new(),
            1 => "; kept 1 file that differs from what the job stored".to_owned(),
            left => format!("; kept {} files that differ from what the job stored", with_commas(left)),
        };
        let bytes = bytes_text(bytes);
        Some(format!("removed {} {} ({bytes}) of the earlier job{left}", with_commas(files), unit(files)))
    }
}
