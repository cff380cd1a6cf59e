// What the page shows, made of a snapshot and of samples; and numbers with their units. Nothing here touches the page.

// Rates are over this many seconds, as on the command line.
export const RATE_SECONDS = 10;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const NONE = "-";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

const orNone = (write) => (value) => (isNumber(value) ? write(value) : NONE);

// `1,234`
export const count = orNone((value) => whole.format(value));
// `12K`, for axes
export const shortCount = orNone((value) => short.format(value));
// `1,234/s`, and `0.35/s` of what is rare
export const perSecond = orNone((value) => `${value > 0 && value < 10 ? +value.toPrecision(2) : whole.format(value)}/s`);

// `980 B`, `1.5 MiB`
export const bytes = orNone((value) => {
  const step = Math.max(0, Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  const scaled = value / 1024 ** step;
  return `${step === 0 || Number.isInteger(scaled) ? whole.format(scaled) : scaled.toFixed(1)} ${BYTE_UNITS[step]}`;
});
export const bytesPerSecond = orNone((value) => `${bytes(value)}/s`);

// `850 us`, `12.3 ms`, `1.20 s`
export const latency = orNone((value) => {
  if (value === 0) return "0 s";
  if (value < 0.001) return `${+(value * 1e6).toPrecision(3)} us`;
  return value < 1 ? `${+(value * 1e3).toPrecision(3)} ms` : `${+value.toPrecision(3)} s`;
});

// `45 s`, `3 min 20 s`, `2 h 05 min`
export const duration = orNone((value) => {
  const seconds = Math.round(value);
  const pad = (part) => String(part).padStart(2, "0");
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${pad(seconds % 60)} s`;
  return `${whole.format(Math.floor(seconds / 3600))} h ${pad(Math.floor((seconds % 3600) / 60))} min`;
});

// `12:00:01`
export const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

export const settledOf = (snapshot) => snapshot.fetched + snapshot.absent + snapshot.failed + snapshot.skipped;

// What is counted a second, over the last so many seconds.
export function ratesOf(samples, seconds = RATE_SECONDS) {
  const last = samples.at(-1);
  const sums = { seconds: 0, settled: 0, bytes: 0, attempts: 0, listed: 0 };
  for (const sample of last ? samples : []) {
    if (sample.time > last.time - seconds + 0.001) {
      sums.seconds += sample.interval;
      for (const name of ["settled", "bytes", "attempts", "listed"]) sums[name] += sample[name];
    }
  }
  const rate = (name) => (sums.seconds > 0 ? sums[name] / sums.seconds : null);
  return { settled: rate("settled"), bytes: rate("bytes"), attempts: rate("attempts"), listed: rate("listed") };
}

// Targets that there are in the end: those listed, or as many as the listing promises; null when nobody knows.
function expectedOf(snapshot) {
  if (snapshot.listing_done) return snapshot.listed;
  return snapshot.total !== null && snapshot.total >= snapshot.listed ? snapshot.total : null;
}

// `412 of 1,000 (41 %)` when the total is known, else `412 of at least 1,000`; and the share.
export function progressOf(snapshot, rates) {
  const settled = settledOf(snapshot);
  const expected = expectedOf(snapshot);
  if (expected === null) return { text: `${count(settled)} of at least ${count(snapshot.listed)}`, share: null };
  const share = expected ? settled / expected : 1;
  const remaining = rates.settled > 0 ? (expected - settled) / rates.settled : null;
  const eta = remaining > 0 ? `, ETA ${duration(remaining)}` : "";
  return { text: `${count(settled)} of ${count(expected)} (${Math.floor(100 * share)} %)${eta}`, share };
}

// The rows of the table: what, its key, its text.
export function rowsOf(snapshot, rates) {
  const times = snapshot.latency ?? {};
  return [
    ["listed", "listed", count(snapshot.listed) + (snapshot.listing_done ? "" : ", and more")],
    ["fetched", "fetched", count(snapshot.fetched)],
    ["absent", "absent", count(snapshot.absent)],
    ["failed", "failed", count(snapshot.failed)],
    ["skipped", "skipped", count(snapshot.skipped)],
    ["waiting to be retried", "waiting", count(snapshot.waiting)],
    ["bytes of fetched bodies", "bytes", bytes(snapshot.bytes)],
    ["object rate", "objects-rate", perSecond(rates.settled)],
    ["bandwidth", "bytes-rate", bytesPerSecond(rates.bytes)],
    ["request rate", "requests-rate", perSecond(rates.attempts)],
    ["listing rate", "listed-rate", perSecond(rates.listed)],
    ["requests in this run", "requests", count(snapshot.attempts)],
    ["requests in flight", "in-flight", count(snapshot.in_flight)],
    ["requests in flight at most", "concurrency", count(snapshot.concurrency)],
    ["latency, median", "p50", latency(times.p50)],
    ["latency, 90 % below", "p90", latency(times.p90)],
    ["latency, 99 % below", "p99", latency(times.p99)],
    ["latency, longest", "max", latency(times.max)],
    ["time of this run", "seconds", duration(snapshot.seconds)],
  ];
}

// Failure kinds of all samples, the most frequent first.
export function kindsOf(samples) {
  const totals = new Map();
  for (const sample of samples) {
    for (const [kind, number] of Object.entries(sample.failures)) totals.set(kind, (totals.get(kind) ?? 0) + number);
  }
  return [...totals].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).map(([kind]) => kind);
}

// What has held the job back, in the order of its coming up.
export const limitsOf = (samples) => [...new Set(samples.map((sample) => sample.limited_by).filter(Boolean))];

// Columns for a chart: times, then a column for each function; empty where nothing was sampled, between two runs.
export function columnsOf(samples, functions) {
  const columns = [[], ...functions.map(() => [])];
  let end = null;
  for (const sample of samples) {
    const begin = sample.time - sample.interval;
    if (end !== null && begin > end + 1.5 * sample.interval) {
      columns.forEach((column, index) => column.push(index === 0 ? (begin + end) / 2 : null));
    }
    columns[0].push(sample.time);
    functions.forEach((read, index) => {
      const value = read(sample);
      columns[index + 1].push(isNumber(value) ? value : null);
    });
    end = sample.time;
  }
  return columns;
}

