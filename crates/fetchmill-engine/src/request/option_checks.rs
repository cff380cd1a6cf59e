//! Validates combinations of options. The plan checks combinations that depend on facts outside the request, such as
//! the columns of a list.

use super::http_options::Concurrency;
use super::job_request::JobRequest;
use super::name_scheme::NameScheme;
use super::source_options::{Listing, SourceOptions};
use super::workers::Workers;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::ACCEPT_ENCODING;
use fetchmill_model::limits;
use fetchmill_model::options::Options as _;
use fetchmill_model::origin::OriginFields;
use fetchmill_model::row::RowKind;
use fetchmill_model::source::one_object::is_object;
use fetchmill_net::{ProxySetup, check_insecure_host};
use fetchmill_store::sink::Format;

impl JobRequest {
    /// Rejects invalid combinations of options.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        let written = |name: &str| format!("--{}", name.replace('_', "-"));
        self.http.check_bounds(written)?;
        self.list.check_bounds(written)?;
        self.bounds.check_bounds(written)?;
        self.check_bounds(written)?;
        self.check_transform()?;
        if self.names.template().is_some() && self.list.key_column.is_some() {
            return refuse(
                "--names with a template cannot be combined with --key-column, because both name the \
                 objects; leave out one of them",
            );
        }
        self.http.insecure_host.iter().try_for_each(|host| check_insecure_host(host))?;
        if !self.sidecar.is_empty() && self.format != Format::Tar {
            return refuse("--sidecar needs --format tar");
        }
        if self.hash.is_some() && !matches!(self.format, Format::Parquet | Format::Jsonl) {
            return refuse("--hash needs --format parquet or jsonl");
        }
        self.check_strip_prefix()?;
        self.check_rows()?;
        self.check_items()?;
        self.check_upload()?;
        if self.keep_failed {
            self.check_keep_failed()?;
        }
        if self.cdxj == Some(true) {
            self.check_cdxj()?;
        }
        if self.restart {
            self.check_restart()?;
        }
        self.check_workers()?;
        self.check_compressed()?;
        self.check_opt_out()?;
        self.check_accept()?;
        self.check_robots()?;
        self.check_requests()?;
        self.check_pipeline()?;
        if self.coalesce.is_some() && !self.list.request.has_range() {
            return refuse("--coalesce needs byte ranges; add --offset-column and --length-column");
        }
        if self.allow_private && self.http.public_only {
            return refuse("allow_private and public_only cannot be combined");
        }
        self.check_fields()?;
        self.check_tokens()?;
        self.check_client_certificate()?;
        if let Some(pages) = self.json_pages() {
            return pages.map(drop);
        }
        self.check_server()
    }

    /// Checks that the server can be listed, or is itself the object.
    fn check_server(&self) -> Result<()> {
        let SourceOptions::Server(url) = &self.source else { return Ok(()) };
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        if self.listing == Listing::Object && !is_object(url) {
            return Err(Error::Usage(format!(
                "SOURCE is not the URL of an object ({}); give a URL that does not end with a slash, or \
                 another --listing",
                url.url()
            )));
        }
        if self.listing.of_folders().is_some() {
            return Ok(());
        }
        if !self.api.list_path.starts_with('/') {
            return refuse("--list-path must start with /");
        }
        self.api.around_name().map(drop)
    }

    /// Checks the header fields of all requests. The origin of a bucket is known only after the first contact with its
    /// store.
    fn check_fields(&self) -> Result<()> {
        match self.source {
            SourceOptions::S3 { .. } => Ok(()),
            _ => self.http.fields(self.source.only_origin(&self.list)).map(drop),
        }
    }

    /// Checks the options of a transform.
    fn check_transform(&self) -> Result<()> {
        let Some(transform) = &self.transform else { return Ok(()) };
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        if !self.transform_columns.is_empty() && !self.keeps_columns() {
            return refuse("--transform-columns needs --format parquet or jsonl, or tar with --sidecar");
        }
        if transform.command.is_empty() {
            return refuse("a transform needs a command that starts its processes");
        }
        Ok(())
    }

    /// Checks that the shards can have indexes.
    fn check_cdxj(&self) -> Result<()> {
        if self.format != Format::Warc {
            return Err(Error::Usage("--cdxj needs --format warc".into()));
        }
        self.check_folder("--cdxj")
    }

    /// Checks that the job can start over.
    fn check_restart(&self) -> Result<()> {
        if self.retry_failed.is_some() {
            return Err(Error::Usage(
                "--restart and --retry-failed cannot be combined: one removes what the other continues"
                    .into(),
            ));
        }
        match &self.upload {
            Some(upload) => Err(Error::Usage(format!(
                "--restart removes only local files, not objects of a bucket ({}); remove the prefix and the job's \
                 journal folder, or choose another prefix",
                upload.text()
            ))),
            None => Ok(()),
        }
    }

    /// Checks that the format can store more than objects.
    fn check_keep_failed(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::Usage(message.into()));
        if self.pass.is_some() && self.format != Format::Warc {
            return refuse("--keep-failed needs --format warc in a sync");
        }
        if !self.keeps_all_rows() && !self.keeps_replies() {
            return refuse("--keep-failed needs --format parquet, jsonl or warc");
        }
        self.check_folder("--keep-failed")
    }

    /// Checks that the destination is a folder, as `option` requires.
    fn check_folder(&self, option: &str) -> Result<()> {
        match &self.upload {
            Some(upload) => Err(Error::Usage(format!(
                "{option} needs a folder as its destination, not a bucket ({}); fetch into a folder, then \
                 copy the folder",
                upload.text()
            ))),
            None => Ok(()),
        }
    }

    /// Checks the options of a job that writes rows.
    fn check_rows(&self) -> Result<()> {
        let Some(rows) = &self.rows else { return Ok(()) };
        if self.format != Format::Null || self.retry_failed.is_some() || self.transform.is_some() {
            return Err(Error::Usage("check and list do not store, transform or retry objects".into()));
        }
        if rows.kind == RowKind::Answers && self.lists_itself() {
            let url = self.source.text();
            return Err(Error::Usage(format!(
                "{url} is not a list; give a file with URLs, or - for standard input"
            )));
        }
        Ok(())
    }

    /// Checks the options that are used together with `--pipeline`.
    fn check_pipeline(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::Usage(format!("--pipeline {message}")));
        let requests = self.pipeline;
        if requests <= 1 {
            return Ok(());
        }
        if !matches!(self.source, SourceOptions::Server(_)) || self.leads_anywhere() {
            return refuse(
                "works only for a server that lists its own objects, not for lists, buckets and --listing \
                 json"
                    .into(),
            );
        }
        if self.workers != Workers::Native {
            return refuse("needs --engine native".into());
        }
        if self.http.rate.is_some() || self.http.host_rate().is_some() || self.bwlimit.is_some() {
            return refuse(
                "sends requests as fast as possible; leave out --rate, --rate-per-host and --bwlimit".into(),
            );
        }
        if self.http.proxy.is_some() {
            return refuse("cannot be used with a proxy; leave out --proxy".into());
        }
        let most = limits::BATCHED_REQUESTS_MAX / requests;
        match self.http.concurrency {
            Concurrency::Number(connections) if connections > most => refuse(format!(
                "{requests} allows a --concurrency of at most {most}, which is the number of connections"
            )),
            _ => Ok(()),
        }
    }

    /// Rejects `--accept` if the engine does not provide the start of each object.
    fn check_accept(&self) -> Result<()> {
        if self.http.accept.is_all() {
            return Ok(());
        }
        let refuse = |problem: &str| Err(Error::Usage(format!("--accept {problem}")));
        if self.lists_only() {
            return refuse("applies to fetched objects only; list fetches none, and items are JSON");
        }
        if self.list.request.has_range() {
            return refuse(
                "cannot be combined with --offset-column, because a part of an object does not always include \
                 its start",
            );
        }
        Ok(())
    }

    /// Rejects `--opt-out` if the job cannot inspect the replies.
    fn check_opt_out(&self) -> Result<()> {
        if !self.http.opt_out {
            return Ok(());
        }
        let refuse = |problem: &str| Err(Error::Usage(format!("--opt-out {problem}")));
        if self.lists_only() {
            return refuse("works with get and check only; a list requests no objects");
        }
        if self.pass.is_some() {
            return refuse(
                "works with get and check only; a sync would keep or delete objects that opt out later",
            );
        }
        if self.workers != Workers::Native {
            return refuse("needs --engine native");
        }
        if self.list.request.has_range() {
            return refuse(
                "cannot be combined with --offset-column, because a part of an object does not always include \
                 its start",
            );
        }
        if self.pipeline > 1 {
            return refuse("cannot be combined with --pipeline; leave out one of them");
        }
        Ok(())
    }

    /// Rejects `--robots` for a list, unless the native engine sends the requests.
    fn check_robots(&self) -> Result<()> {
        if !self.obeys_robots_of_hosts() {
            return Ok(());
        }
        let refuse = |problem: &str| Err(Error::Usage(format!("--robots {problem}")));
        if self.lists_only() {
            return refuse("works with get and check only; listing URLs makes no requests to their hosts");
        }
        if self.pass.is_some() {
            return refuse(
                "works with get and check only; a sync would keep or delete objects that opt out later",
            );
        }
        if self.workers != Workers::Native {
            return refuse("of a list needs --engine native");
        }
        Ok(())
    }

    /// Checks the options that are used together with encoded replies.
    fn check_compressed(&self) -> Result<()> {
        if !self.http.compressed {
            return Ok(());
        }
        let refuse = |problem: &str| Err(Error::Usage(format!("--compressed {problem}")));
        if self.format == Format::Warc {
            return refuse(
                "cannot be combined with --format warc, which stores bodies as sent by the server; choose \
                 another format",
            );
        }
        if self.workers != Workers::Native {
            return refuse("needs --engine native");
        }
        if self.list.request.has_range() {
            return refuse(
                "cannot be combined with --offset-column, because part of an encoded object cannot be \
                 decoded",
            );
        }
        if self.pipeline > 1 {
            return refuse("cannot be combined with --pipeline; leave out one of them");
        }
        let of_rows = self.list.request.headers.iter().map(|header| &header.name);
        let mut names = self.http.headers.iter().map(|(name, _)| name).chain(of_rows);
        if names.any(|name| name.eq_ignore_ascii_case(ACCEPT_ENCODING)) {
            return refuse("sets Accept-Encoding itself; leave out --header Accept-Encoding");
        }
        Ok(())
    }

    /// Checks the options for requests other than a plain `GET`.
    fn check_requests(&self) -> Result<()> {
        let request = &self.list.request;
        if !request.is_custom() {
            return Ok(());
        }
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        if request.has_range() {
            self.check_ranges()?;
        }
        if request.has_hash() {
            self.check_hashes()?;
        }
        if !matches!(self.source, SourceOptions::List(_) | SourceOptions::Iterable) {
            return refuse("--method, --data and --data-json work only for lists of URLs");
        }
        if self.workers != Workers::Native {
            return refuse("--method, --data, --data-json and headers with columns need --engine native");
        }
        // A sync pass sends `GET` requests, and its conditions do not affect replies that contain an object.
        if self.format == Format::Warc && self.pass.is_none() {
            return refuse(
                "--format warc stores GET requests only; choose another format for --method and --data",
            );
        }
        let has_own_names = self.list.key_column.is_some() || self.names != NameScheme::Source;
        if self.format == Format::Files && self.list.has_one_url() && !has_own_names {
            return refuse(
                "all targets have the same URL, but files need different names; add --names seq, a name \
                 template, or --key-column",
            );
        }
        let fields = request.headers.iter().map(|header| (header.name.clone(), header.value.clone()));
        OriginFields::new(self.secrets_origin(), fields.collect())?;
        self.requests().map(drop)
    }

    /// Checks the options for parts of objects.
    fn check_ranges(&self) -> Result<()> {
        let refuse =
            |problem: &str| Err(Error::Usage(format!("--offset-column and --length-column {problem}")));
        let request = &self.list.request;
        if request.offset_column.is_none() || request.length_column.is_none() {
            return refuse("must be given together");
        }
        if !matches!(self.source, SourceOptions::List(_)) {
            return refuse("work only for lists of URLs, because only lists have columns");
        }
        if !request.is_bare_get() {
            return refuse("use GET requests; leave out --method, --data and --data-json");
        }
        if self.workers != Workers::Native {
            return refuse("need --engine native");
        }
        if self.format == Format::Warc {
            return refuse(
                "cannot be combined with --format warc, which stores whole objects; choose another format",
            );
        }
        Ok(())
    }

    /// Checks the options for hashes in a list.
    fn check_hashes(&self) -> Result<()> {
        let refuse = |problem: &str| Err(Error::Usage(format!("--hash-column {problem}")));
        if !matches!(self.source, SourceOptions::List(_)) {
            return refuse("works only for lists of URLs, because only lists have columns");
        }
        if self.workers != Workers::Native {
            return refuse("needs --engine native");
        }
        if self.format == Format::Warc {
            return refuse("cannot be combined with --format warc; choose another format");
        }
        Ok(())
    }

    /// Checks that the job can upload to a bucket.
    fn check_upload(&self) -> Result<()> {
        let Some(upload) = &self.upload else { return Ok(()) };
        let refuse = |message: String| Err(Error::Usage(message));
        if self.format.extension().is_none() {
            return refuse(format!(
                "{} is a bucket, which can hold only shards; choose --format parquet, tar, warc or jsonl",
                upload.text()
            ));
        }
        if matches!(self.workers, Workers::Processes(_)) {
            return refuse(
                "engines with worker processes cannot write to a bucket; use --engine native".into(),
            );
        }
        if self.shard_size.is_some_and(|bytes| bytes > limits::UPLOAD_SHARD_BYTES_MAX) {
            return refuse("--shard-size must be at most 64 GiB for a bucket".into());
        }
        Ok(())
    }

    /// Checks the options for an engine that the program provides.
    fn check_workers(&self) -> Result<()> {
        if self.workers == Workers::Native {
            return Ok(());
        }
        if self.rows.is_some() || self.format == Format::Warc {
            return Err(Error::Usage("checks and --format warc need --engine native".into()));
        }
        Ok(())
    }

    /// Checks the options that conflict with `--bearer-command`.
    fn check_tokens(&self) -> Result<()> {
        if self.bearer_command.is_none() {
            return Ok(());
        }
        let refuse = |problem: &str| Err(Error::Usage(format!("--bearer-command {problem}")));
        if matches!(self.source, SourceOptions::S3 { .. }) {
            return refuse("works only for servers and lists; requests to a bucket are signed instead");
        }
        if self.workers != Workers::Native {
            return refuse("needs --engine native");
        }
        if self.secrets_origin().is_none() {
            return refuse(
                "prints a secret, but a list can name any host; name the only origin that gets the token \
                 with --credentials-for https://HOST",
            );
        }
        Ok(())
    }

    /// Checks the options that conflict with a client certificate, cookies or a SOCKS proxy. The origin of a bucket is
    /// known only after the first contact with its store.
    fn check_client_certificate(&self) -> Result<()> {
        let http = &self.http;
        if http.cookies.is_some() && self.workers != Workers::Native {
            return Err(Error::Usage("--cookies needs --engine native".into()));
        }
        if http.client_cert.is_some() && self.workers != Workers::Native {
            return Err(Error::Usage("--client-cert needs --engine native".into()));
        }
        if http.proxy.as_ref().is_some_and(ProxySetup::has_socks) && self.workers != Workers::Native {
            return Err(Error::Usage("--proxy socks5:// needs --engine native".into()));
        }
        if matches!(self.source, SourceOptions::S3 { .. }) && http.client_cert.is_some() {
            return Ok(());
        }
        http.check_client_certificate(self.secrets_origin().as_ref(), |name| {
            format!("--{}", name.replace('_', "-"))
        })
    }

    /// Checks the path prefix that is removed from names.
    fn check_strip_prefix(&self) -> Result<()> {
        let refuse = |why: &str| Err(Error::Usage(format!("--strip-prefix {why}")));
        let Some(prefix) = &self.strip_prefix else { return Ok(()) };
        if prefix.is_empty() {
            return refuse("must be a path such as a/b/, not empty");
        }
        if self.names == NameScheme::Seq {
            return refuse("cannot be combined with --names seq, because numbers have no leading path");
        }
        if self.format == Format::Warc && !self.leads_anywhere() {
            return refuse(
                "cannot be combined with --format warc, which builds objects' URLs from their full names",
            );
        }
        Ok(())
    }
}
