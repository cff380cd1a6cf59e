"""Every option once: its name, its type, and what help says of it.

Rows that belong to the same commands stand together. The TypedDicts at the end are the keywords of `fetchmill.get`,
`plan`, `check`, `list`, and of `stream` and its like. Defaults and bounds are the core's: http_options.rs, options.rs.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Literal, TypedDict

from fetchmill._options.rows import Option
from fetchmill._transform.reply import Function

Format = Literal["files", "tar", "parquet", "warc", "jsonl", "null"]
RowsFormat = Literal["parquet", "csv", "jsonl"]
Listing = Literal["auto", "api", "autoindex", "html", "sitemap", "json"]
NextPage = Literal["marker", "url", "link", "page", "offset", "none"]
Durability = Literal["power", "process"]
Hash = Literal["sha256"]
ListFormat = Literal["txt", "csv", "tsv", "jsonl", "parquet", "inventory"]
CsvHeader = Literal["auto", "yes", "no"]
EngineName = Literal["native", "sync", "threads", "processes", "asyncio", "combo"]
AddressingStyle = Literal["auto", "path", "virtual"]
# A number, or as many as prove useful.
Concurrency = int | Literal["auto"]
PathText = str | os.PathLike[str]


class OfFormat(TypedDict, total=False):
    """What `get` and `sync` have: how objects are stored."""

    format: Annotated[
        Format,
        Option(
            "choice",
            "How objects are stored: `files` is a file for each object; `parquet`, `tar`, `warc` and `jsonl` put many "
            "into one; `null` counts and discards them.",
        ),
    ]
    shard_size: Annotated[
        int | None, Option("bytes", "Size of a shard of tar, warc and jsonl (1 GiB if not given) or parquet (128 MiB).")
    ]
    warc_all: Annotated[
        bool,
        Option(
            "flag",
            "Store in warc what is no object, too: redirects, and what came in place of objects.",
        ),
    ]


class Storing(TypedDict, total=False):
    """What `get` alone has: more of how objects are stored, and who fetches them."""

    seal_after: Annotated[float, Option("seconds", "Age at which a shard of parquet is complete: readers see it then.")]
    names: Annotated[
        str,
        Option(
            "text",
            "What objects of a list are called: `source` is key or URL (for `files` host/path?query), `seq` their "
            "number, and a template such as '{id}.jpg' makes it of columns.",
        ),
    ]
    strip_prefix: Annotated[
        str | None,
        Option("text", "Leading path that names lose when objects are stored, such as a/b/; others keep their names."),
    ]
    engine: Annotated[
        EngineName,
        Option(
            "choice",
            "What makes the requests: `native` is the fastest; the others are Python's ways, with requests (`sync`, "
            "`threads`, `processes`) and aiohttp (`asyncio`, `combo`: processes x asyncio).",
            default="native",
        ),
    ]
    pipeline: Annotated[
        int,
        Option(
            "count",
            "Requests that are sent at once on a connection, for a server that lists its objects and does this well; "
            "--concurrency counts connections then (docs/reference/http-support.md).",
        ),
    ]
    server_times: Annotated[
        bool,
        Option("flag", "Give files the time that the server says (Last-Modified), not the time of fetching."),
    ]
    sidecar: Annotated[
        Sequence[str] | None,
        Option(
            "patterns",
            "What stands beside each object in a shard of tar, as webdataset reads it: json for all kept columns, or "
            "EXTENSION=COLUMN, such as txt=caption, for the value of one; may be repeated.",
        ),
    ]
    compressed: Annotated[
        bool,
        Option("flag", "Ask for replies in gzip, br or zstd, and store them decoded (docs/reference/http-support.md)."),
    ]
    hash: Annotated[
        Hash | None, Option("choice", "Give the rows of parquet and jsonl a column with this hash of each stored body.")
    ]
    all_rows: Annotated[
        bool,
        Option(
            "flag",
            "Give every target of the finished job a row in parquet and jsonl: one that failed, was absent or skipped "
            "has no body, and says why.",
        ),
    ]
    cdxj: Annotated[
        bool,
        Option("flag", "Put an index in CDXJ beside each shard of warc of the finished job."),
    ]
    transform: Annotated[
        Function | str | None,
        Option(
            "function",
            "Function that turns fetched replies into what is stored, as MODULE:FUNCTION (docs/guide/transform.md).",
            default=None,
        ),
    ]
    transform_columns: Annotated[
        Sequence[str] | None,
        Option("texts", "Columns of parquet and jsonl that the function fills, with commas between them."),
    ]
    transform_batch: Annotated[int, Option("count", "Replies that the function is given at once, at most.")]
    max_failed: Annotated[
        int | str | None,
        Option(
            "share",
            "Targets of the whole job that may fail or be absent: a number, or a percentage as 1%. At or below it the "
            "exit code is 0; above it the run is stopped early (exit code 8).",
        ),
    ]
    allow_absent: Annotated[
        bool,
        Option("flag", "Exit with 0 when targets were absent but none failed; --max-failed does not count them."),
    ]
    retry_failed: Annotated[
        bool | Sequence[str],
        Option(
            "answers",
            "Fetch again what failed or was absent in this job, or only what gave one of these answers: failure kinds, "
            "statuses as 404, 5xx, dns*, with commas between them.",
        ),
    ]


class OfFiles(TypedDict, total=False):
    """What `get` and `sync` have: whether there is room for files."""

    preflight: Annotated[
        bool,
        Option(
            "flag",
            "Stop at the start, or as soon as it is known, when `files` would need more inodes or bytes than are free.",
        ),
    ]


class Rows(TypedDict, total=False):
    """What `check` and `list` have: how rows are written."""

    format: Annotated[
        RowsFormat | None,
        Option(
            "choice",
            "How rows are written; told from the end of their file's name if not given (csv and jsonl also with .gz or "
            ".zst).",
            default=None,
        ),
    ]


class OfServer(TypedDict, total=False):
    """What `get` and `list` have: how a server lists its objects, and for how long it may be silent."""

    listing: Annotated[
        Listing,
        Option(
            "choice",
            "How the source is listed: `api` is GET /list in pages; `autoindex` (nginx's JSON) and `html` (index pages "
            "of Apache, nginx, lighttpd, python -m http.server) walk a web server's folders; `sitemap` reads sitemaps; "
            "`json` reads the pages of any API in JSON, SOURCE being the first (docs/guide/listings.md); "
            "`auto` finds out.",
        ),
    ]
    robots: Annotated[bool, Option("flag", "Heed the server's robots.txt where index pages in HTML are walked.")]
    list_path: Annotated[str, Option("text", "Path of a page of the listing, behind the path of SOURCE.")]
    names_field: Annotated[str, Option("text", "Field of a page with the names; may be dotted.")]
    marker_field: Annotated[str, Option("text", "Field of a page with the marker of the next one; may be dotted.")]
    total_field: Annotated[
        str, Option("text", "Field of a page with the number of all objects, if the server tells it; may be dotted.")
    ]
    marker_param: Annotated[str, Option("text", "Query parameter that carries the marker.")]
    get_path: Annotated[str, Option("text", "Path of an object, behind the path of SOURCE.")]
    give_up_after: Annotated[
        float,
        Option(
            "seconds",
            "End the job (exit code 5) when nothing has succeeded, or a page of the listing has failed, for this long.",
        ),
    ]


class OfJsonPages(TypedDict, total=False):
    """What `get`, `list` and `sync` have: how pages of JSON are read."""

    items_field: Annotated[
        str,
        Option("text", "Field of a page of JSON with the array of items; may be dotted. `.` is the page itself."),
    ]
    url_field: Annotated[
        str | None,
        Option(
            "text",
            "Field of an item with the object's URL, absolute or relative to that of the page; may be dotted. If not "
            "given items are strings.",
        ),
    ]
    name_field: Annotated[
        str | None, Option("text", "Field of an item with the object's name; its URL if not given. May be dotted.")
    ]
    size_field: Annotated[
        str | None,
        Option("text", "Field of an item with the object's size, which must be that of what comes; may be dotted."),
    ]
    modified_field: Annotated[
        str | None,
        Option(
            "text",
            "Field of an item that says when the object was written last, for manifests and `sync`: a date of ISO 8601 "
            "or HTTP, or seconds or milliseconds since 1970; may be dotted.",
        ),
    ]
    next_page: Annotated[
        NextPage | None,
        Option(
            "choice",
            "How a page of JSON leads to the next one: `marker` and `url` are in --next-field, `link` in the head's "
            "Link field (rel=next); `page` and `offset` count in a parameter until a page is empty; `none`: it is all.",
        ),
    ]
    next_field: Annotated[
        str | None, Option("text", "Field of a page of JSON with the marker or URL of the next one; may be dotted.")
    ]
    page_param: Annotated[
        str, Option("text", "Query parameter of the page's number, counted from 1 or from what SOURCE says.")
    ]
    offset_param: Annotated[
        str, Option("text", "Query parameter of the number of items before a page, counted from 0 or from SOURCE's.")
    ]


class OfList(TypedDict, total=False):
    """What `get`, `check`, `list` and `sync` have: how a list is read."""

    list_format: Annotated[
        ListFormat | None, Option("choice", "What a list is; told from its name if not given, else txt.")
    ]
    column: Annotated[
        str | None,
        Option(
            "text", "Column of a list with the URL: its name, or its number from 1; the first, or `url`, if not given."
        ),
    ]
    template: Annotated[
        str | None,
        Option("text", "URL that is made of a column, as in 'https://www.{}'; {name} is another column."),
    ]
    csv_header: Annotated[
        CsvHeader, Option("choice", "Whether the first row of a csv or tsv list has the columns' names.")
    ]
    delimiter: Annotated[
        str | None,
        Option("text", "Character between the fields of a csv list, or `tab`; detected if not given."),
    ]
    quote: Annotated[
        str | None,
        Option("text", "Character that fields of a csv or tsv list may be quoted with, or `none`."),
    ]
    key_column: Annotated[
        str | None, Option("text", "Column of a list with the names of objects; their URLs if not given.")
    ]


class OfRows(TypedDict, total=False):
    """What `get`, `check` and `list` have: what is taken of a list."""

    keep_columns: Annotated[
        Sequence[str] | None, Option("texts", "Columns of a list that go into the rows, with commas between them.")
    ]
    column_types: Annotated[
        Sequence[str] | None,
        Option(
            "texts",
            "What the values of kept columns, and of those of --transform-columns, are: COLUMN=TYPE with commas "
            "between them; TYPE is string, int64, float64 or bool. A Parquet list says it itself; all others are "
            "string.",
        ),
    ]
    sample: Annotated[int | None, Option("count", "Take only so many targets of a list, chosen evenly at random.")]


class OfFilters(TypedDict, total=False):
    """What `get`, `check`, `list` and `sync` have: what is left out."""

    include: Annotated[
        Sequence[str] | None, Option("patterns", "Take only what matches: a glob, or re:REGEX; may be repeated.")
    ]
    exclude: Annotated[Sequence[str] | None, Option("patterns", "Leave out what matches; may be repeated.")]


class OfTargetRequests(TypedDict, total=False):
    """What `get` alone has: what the targets of a list are asked with."""

    method: Annotated[
        str | None, Option("text", "Method of the requests of a list; POST with a body, else GET, if not given.")
    ]
    data: Annotated[
        str | None,
        Option("text", "Body of each request, as a form has it: 'q={column}&n=1'; values are percent-encoded."),
    ]
    data_json: Annotated[
        str | None,
        Option("text", 'Body of each request in JSON: \'{"q": "{column}", "n": {number}}\'; values are encoded.'),
    ]
    idempotent: Annotated[
        bool, Option("flag", "Requests may be made twice, and are tried again; if not given only GET and HEAD are.")
    ]
    offset_column: Annotated[
        str | None,
        Option("text", "Column of a list with the first byte of the part to fetch (Range), counted from 0."),
    ]
    length_column: Annotated[
        str | None, Option("text", "Column of a list with the length of that part, in bytes; needs --offset-column.")
    ]
    coalesce: Annotated[
        int | None,
        Option(
            "bytes",
            "Fetch parts of one object that follow one another in the list with one request, when at most so many "
            "bytes lie between them, as 4k.",
        ),
    ]
    hash_column: Annotated[
        str | None,
        Option(
            "text",
            "Column of a list with the hash that each object must have: SHA-256 or MD5, hexadecimal or Base64; another "
            "object is failed (checksum).",
        ),
    ]


class OfRequests(TypedDict, total=False):
    """What all have: what requests carry, and whom to believe."""

    headers: Annotated[
        Mapping[str, str] | None,
        Option(
            "headers",
            "Field of requests to the source's origin, as in 'Name: value'; {column} is a value of a list; "
            "may be repeated.",
        ),
    ]
    credentials_for: Annotated[
        str | None, Option("text", "Origin that gets headers and credentials, https://HOST[:PORT]; a list needs it.")
    ]
    ca_file: Annotated[PathText | None, Option("path", "Certificates to trust instead of the system's, in PEM.")]
    insecure_host: Annotated[
        Sequence[str] | None, Option("patterns", "Host whose certificate is not checked; may be repeated.")
    ]
    proxy: Annotated[
        str | None,
        Option(
            "text",
            "Proxy for all requests, http://[USER:PASSWORD@]HOST:PORT; `env` takes it from the environment.",
            envvar="FETCHMILL_PROXY",
        ),
    ]
    resolver: Annotated[
        Sequence[str] | None,
        Option(
            "patterns",
            "Name server to ask, ADDRESS[:PORT], or `system` for the machine's own look-up; may be repeated.",
        ),
    ]


class OfFetching(TypedDict, total=False):
    """What `get`, `check` and streams have: how many requests there are, and where they may lead."""

    concurrency: Annotated[Concurrency | None, Option("concurrency", "Requests in flight at most.", short="-j")]
    limit: Annotated[Concurrency | None, Option("concurrency", "Another name of concurrency.", alias_of="concurrency")]
    rate: Annotated[float | None, Option("number", "Requests a second at most, all together.")]
    rate_per_host: Annotated[
        float | None,
        Option(
            "rate", "Requests a second at most, to each host; 50 for a list of many hosts if not given, 0: no limit."
        ),
    ]
    redirects: Annotated[
        int | None,
        Option(
            "whole",
            "Redirects to follow one after the other; 5 for a list or pages of JSON and 0 for a server if not given.",
        ),
    ]
    attempts: Annotated[int, Option("count", "Attempts at a target before it is failed.")]
    public_only: Annotated[
        bool, Option("flag", "Let no target lead to a private address, whoever names it: a list, a server, a program.")
    ]
    http2: Annotated[bool, Option("flag", "Use HTTP/2 where a server of https offers it.")]


class OfTrying(TypedDict, total=False):
    """What `get` and streams have: how far `concurrency="auto"` goes."""

    concurrency_max: Annotated[
        int | None,
        Option(
            "count",
            "Requests in flight that --concurrency auto goes up to; if not given 64 for a list or a public address, "
            "256 for AWS's S3, else 16384.",
        ),
    ]


class OfHosts(TypedDict, total=False):
    """What `get` and `check` have: what the hosts of a list are spared, and who asks them."""

    limit_per_host: Annotated[
        int | None,
        Option(
            "whole", "Requests in flight at most, to each host; 4 for a list of many hosts if not given, 0: no limit."
        ),
    ]
    allow_private: Annotated[
        bool, Option("flag", "Let the targets of a list, or of pages of JSON, lead to private addresses.")
    ]
    threads: Annotated[int | None, Option("count", "Threads that fetch; one for each processor if not given.")]


class OfRuns(TypedDict, total=False):
    """What `get` and `check` have: what a run may take. Once ended, the same command goes on."""

    max_duration: Annotated[
        float | None, Option("seconds", "Time of this run: it is stopped then, after a checkpoint (exit code 8).")
    ]
    max_bytes: Annotated[
        int | None,
        Option(
            "bytes", "Bytes of bodies that this run receives: it is stopped then, after a checkpoint (exit code 8)."
        ),
    ]


class OfBandwidth(TypedDict, total=False):
    """What `get`, `check` and `sync` have: what is taken of the network."""

    bwlimit: Annotated[float | None, Option("bandwidth", "Bytes of bodies a second at most, all together.")]


class OfCommits(TypedDict, total=False):
    """What `get`, `check`, `list` and `sync` have: what is made durable, and when."""

    commit_window: Annotated[
        float, Option("seconds", "Time between commits: a crash costs what was fetched in it and a second more.")
    ]
    durability: Annotated[
        Durability,
        Option(
            "choice",
            "What a commit survives: `power` is a power cut, `process` is the death of the process only (no syncs).",
        ),
    ]


class OfState(TypedDict, total=False):
    """What `get`, `check` and `list` have: where it is made durable."""

    state: Annotated[
        PathText | None,
        Option(
            "path",
            "Folder of the journal, on a local file system; DEST/.fetchmill if not given, for a bucket "
            "./NAME.fetchmill.",
        ),
    ]


class OfDashboards(TypedDict, total=False):
    """What `get`, `check` and `list` have: a page and metrics while the job runs. It only shows."""

    dashboard: Annotated[
        bool | str,
        Option(
            "dashboard",
            "Serve a page with charts, and metrics for Prometheus, while the job runs (docs/guide/dashboard.md).",
            default=False,
            heading="Dashboard",
        ),
    ]
    dashboard_addr: Annotated[
        str | None,
        Option(
            "address",
            "Serve them there; 127.0.0.1 and a free port if not given. An address that others can reach needs a token.",
            default=None,
            heading="Dashboard",
        ),
    ]
    dashboard_token: Annotated[
        str | None,
        Option(
            "token",
            "Token that readers must show, 16 characters or more; the command takes a file with it, or the variable "
            "the token itself.",
            default=None,
            envvar="FETCHMILL_DASHBOARD_TOKEN",
            heading="Dashboard",
        ),
    ]
    dashboard_host: Annotated[
        Sequence[str] | None,
        Option(
            "patterns",
            "Name that browsers may know it by, beside its address and localhost; may be repeated.",
            default=None,
            heading="Dashboard",
        ),
    ]


class OfTokens(TypedDict, total=False):
    """What `get`, `list` and `sync` have: a token that does not last."""

    bearer_command: Annotated[
        str | None,
        Option(
            "text",
            "Command that prints a token for bearer authentication, run by a shell, and again when the server answers "
            "401.",
        ),
    ]


class OfOrigins(TypedDict, total=False):
    """What `get`, `list` and streams have: who asks, how long for each step, and how buckets are reached."""

    auth: Annotated[
        str | tuple[str, str] | None,
        Option("auth", "Basic authentication, USER:PASSWORD.", default=None, envvar="FETCHMILL_AUTH"),
    ]
    bearer: Annotated[
        str | None, Option("text", "Token for bearer authentication.", default=None, envvar="FETCHMILL_BEARER")
    ]
    netrc: Annotated[bool, Option("flag", "Take user and password from ~/.netrc.", default=False)]
    connect_timeout: Annotated[float, Option("seconds", "Time for a connection.")]
    head_timeout: Annotated[float, Option("seconds", "Time from a request to the end of the reply's head.")]
    idle_timeout: Annotated[float, Option("seconds", "Time without a byte of a body.")]
    endpoint_url: Annotated[
        str | None,
        Option("url", "Store to ask instead of AWS, http://HOST[:PORT] or https://HOST[:PORT].", heading="S3"),
    ]
    region: Annotated[
        str | None,
        Option("name", "Region of the bucket; found out if neither environment nor profile says it.", heading="S3"),
    ]
    profile: Annotated[
        str | None,
        Option("name", "Profile of ~/.aws/config and ~/.aws/credentials with the credentials.", heading="S3"),
    ]
    no_sign_request: Annotated[
        bool, Option("flag", "Sign no requests and look for no credentials: for public buckets.", heading="S3")
    ]
    addressing_style: Annotated[
        AddressingStyle | None,
        Option(
            "choice",
            "Where the bucket stands in a request: `virtual` is in the host, `path` in the path; `auto`, if not given, "
            "is in the host at AWS and in the path elsewhere.",
            heading="S3",
        ),
    ]


class OfBodies(TypedDict, total=False):
    """What `get` and streams have: how much of a body is taken, for how long, and what it is compared with."""

    total_timeout: Annotated[
        float, Option("seconds", "Time for an attempt, plus a second for each 64 KiB of its body.")
    ]
    max_size: Annotated[int, Option("bytes", "Largest body; a larger one is failed.")]
    allow_eof_bodies: Annotated[
        bool, Option("flag", "Accept bodies that end with the connection: whether they are whole cannot be known.")
    ]
    checksums: Annotated[
        bool,
        Option("flag", "Compare objects with the checksums that their store gives, MD5 of ETags too.", heading="S3"),
    ]


class OfKeys(TypedDict, total=False):
    """What `get` and `list` have: which objects of a bucket are meant."""

    size_from: Annotated[int | None, Option("size", "Take only objects of so many bytes or more.", heading="S3")]
    size_to: Annotated[int | None, Option("size", "Take only objects of fewer bytes.", heading="S3")]
    modified_from: Annotated[
        str | date | None,
        Option(
            "date",
            "Take only objects written then or later: 2026-11-22 (00:00 UTC), 2026-11-22T08:30:00Z.",
            heading="S3",
        ),
    ]
    modified_to: Annotated[str | date | None, Option("date", "Take only objects written before.", heading="S3")]


class Planning(TypedDict, total=False):
    """What `plan` alone has: how long it looks, for how many objects it plans, and what requests cost."""

    probe_seconds: Annotated[
        float, Option("seconds", "Time of the probe: a longer one is more certain.", default=10.0, heading="Plan")
    ]
    objects: Annotated[
        int | None,
        Option(
            "count",
            "Plan for so many objects; if not given for all of the source, or for 1,000,000 when it does not tell how "
            "many it has.",
            default=None,
            heading="Plan",
        ),
    ]
    price_list: Annotated[
        float | None,
        Option("number", "Price of 1,000 requests of the listing, for the cost.", default=None, heading="Plan"),
    ]
    price_get: Annotated[
        float | None, Option("number", "Price of 1,000 requests for objects.", default=None, heading="Plan")
    ]
    price_gb: Annotated[float | None, Option("number", "Price of 10^9 bytes of bodies.", default=None, heading="Plan")]


class Checking(TypedDict, total=False):
    """What `check` alone has."""

    timeout: Annotated[float, Option("seconds", "Time for an attempt, from the start of the connection to the end.")]
    second_look: Annotated[
        bool,
        Option(
            "flag",
            "Look once more, at the end, at what failed for a reason that may pass, and keep the better answer.",
        ),
    ]


class Syncing(TypedDict, total=False):
    """What `sync` alone has: what is compared, and what may be removed."""

    delete: Annotated[
        bool,
        Option("flag", "Remove from DEST what SOURCE does not list any more.", default=False),
    ]
    max_delete: Annotated[
        int | str,
        Option(
            "share",
            "Objects that a pass may remove at most: a number, or a percentage of those in DEST. When it would remove "
            "more, it changes nothing (exit code 11).",
            default="10%",
        ),
    ]
    refetch: Annotated[
        bool, Option("flag", "Fetch every object again, whatever the listing says of it.", default=False)
    ]
    overwrite_local: Annotated[
        bool,
        Option(
            "flag", "Replace files that were changed in DEST, and take a DEST that holds other files.", default=False
        ),
    ]
    check_local: Annotated[
        bool,
        Option(
            "flag", "Look at every file of DEST, too: fetch what is missing, report what was changed.", default=False
        ),
    ]


class GetKeywords(
    OfFormat,
    Storing,
    OfFiles,
    OfServer,
    OfJsonPages,
    OfList,
    OfRows,
    OfFilters,
    OfTargetRequests,
    OfFetching,
    OfTrying,
    OfHosts,
    OfRequests,
    OfOrigins,
    OfTokens,
    OfBodies,
    OfRuns,
    OfBandwidth,
    OfCommits,
    OfState,
    OfKeys,
    OfDashboards,
    total=False,
):
    """The keyword arguments of `fetchmill.get`: the options of GetOptions."""


class PlanKeywords(
    OfFormat,
    Storing,
    OfFiles,
    OfServer,
    OfJsonPages,
    OfList,
    OfRows,
    OfFilters,
    OfFetching,
    OfTrying,
    OfHosts,
    OfRequests,
    OfOrigins,
    OfTokens,
    OfBodies,
    OfRuns,
    OfBandwidth,
    OfCommits,
    OfState,
    OfKeys,
    Planning,
    total=False,
):
    """The keyword arguments of `fetchmill.plan`: those of `fetchmill.get` but what shows it, and the probe's own."""


class CheckKeywords(
    Rows,
    OfList,
    OfRows,
    OfFilters,
    Checking,
    OfFetching,
    OfHosts,
    OfRequests,
    OfRuns,
    OfBandwidth,
    OfCommits,
    OfState,
    OfDashboards,
    total=False,
):
    """The keyword arguments of `fetchmill.check`: the options of CheckOptions."""


class ListKeywords(
    Rows,
    OfServer,
    OfJsonPages,
    OfList,
    OfRows,
    OfFilters,
    OfRequests,
    OfOrigins,
    OfTokens,
    OfCommits,
    OfState,
    OfKeys,
    OfDashboards,
    total=False,
):
    """The keyword arguments of `fetchmill.list`: the options of ListOptions."""


class SyncKeywords(
    Syncing,
    OfFormat,
    OfFiles,
    OfServer,
    OfJsonPages,
    OfList,
    OfFilters,
    OfFetching,
    OfTrying,
    OfHosts,
    OfRequests,
    OfOrigins,
    OfTokens,
    OfBodies,
    OfBandwidth,
    OfCommits,
    OfKeys,
    total=False,
):
    """The keyword arguments of `fetchmill.sync` that are options: those of SyncOptions."""


class StreamKeywords(OfFetching, OfTrying, OfOrigins, OfBodies, OfRequests, total=False):
    """The keyword arguments that are options, of streams and of Client: those of StreamOptions."""
