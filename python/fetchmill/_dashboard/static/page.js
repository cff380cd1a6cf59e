// Shows a job: its snapshot in the tiles and tables, its samples in the charts.
import { Charts } from "./charts.js";
import * as figures from "./figures.js";

const PHASES = {
  listing: "running, not all is listed yet",
  fetching: "running",
  draining: "ending: what is in flight is finished",
  done: "done",
  stopped: "not running; the same command resumes it",
};

const find = (id) => document.getElementById(id);
const charts = new Charts(find("charts"));

function write(id, text) {
  const place = find(id);
  if (place.textContent !== text) place.textContent = text;
}

export function showState(state, text) {
  find("state").dataset.state = state;
  write("state", text);
  document.body.classList.toggle("stale", state === "away");
}

// Rates are those of the last seconds, or of so many.
export function show(snapshot, samples, seconds = figures.RATE_SECONDS) {
  const rates = figures.ratesOf(samples, seconds);
  const { text, share } = figures.progressOf(snapshot, rates);
  showState(snapshot.phase, PHASES[snapshot.phase] ?? snapshot.phase);
  write("command", snapshot.command ?? "");
  write("job", [snapshot.source, snapshot.dest].filter(Boolean).join(" \u2192 "));
  write("done", text);
  const bar = find("bar");
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
  const limit = snapshot.limited_by;
  write("limited", limit ? limitText(limit) : "");
  showList(find("waits"), snapshot.waits.map((wait) => `waiting: ${wait.what}`));
  const rows = figures.rowsOf(snapshot, rates);
  showRows(find("figures"), rows);
  showRows(find("failures"), failureRows(snapshot));
  showOrigins(find("origins"), snapshot.origins ?? []);
  showTiles(rows);
  charts.show(samples);
  document.title = `${share === null ? figures.perSecond(rates.settled) : `${Math.floor(100 * share)} %`} - fetchmill`;
}

function limitText(limit) {
  return limit.kind === "throttling" ? limit.text : `limited by ${limit.text}`;
}

function failureRows(snapshot) {
  const kinds = Object.entries(snapshot.failures).sort((one, other) => other[1] - one[1]);
  return kinds.length > 0 ? kinds.map(([kind, number]) => [kind, kind, figures.count(number)]) : [["none", "none", "0"]];
}

function showList(list, texts) {
  if (list.children.length === texts.length && texts.every((text, at) => list.children[at].textContent === text)) return;
  list.replaceChildren(...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
}

// Only jobs over many origins have them; the page of a finished job has none.
function showOrigins(table, origins) {
  if (table === null) return;
  table.hidden = origins.length === 0;
  const rows = origins.map(({ origin, replies_per_second: rate, latency }) => [
    origin,
    figures.perSecond(rate),
    figures.latency(latency.p50),
    figures.latency(latency.p99),
  ]);
  fillRows(table, rows);
}

function showRows(table, rows) {
  fillRows(table, rows.map(([name, , text]) => [name, text]));
  rows.forEach(([, key], at) => { table.tBodies[0].rows[at].dataset.figure = key; });
}

// Rows that are there stay, so that what reads them aloud or has marked them is not disturbed.
function fillRows(table, rows) {
  const body = table.tBodies[0];
  rows.forEach((texts, at) => {
    const row = body.rows[at] ?? newRow(body, texts.length);
    texts.forEach((text, column) => {
      if (row.cells[column].textContent !== text) row.cells[column].textContent = text;
    });
  });
  while (body.rows.length > rows.length) body.deleteRow(-1);
}

function newRow(body, columns) {
  const row = body.insertRow();
  const head = document.createElement("th");
  head.scope = "row";
  row.append(head);
  for (let column = 1; column < columns; column += 1) row.insertCell();
  return row;
}

function showTiles(rows) {
  const texts = new Map(rows.map(([, key, text]) => [key, text]));
  for (const place of document.querySelectorAll(".tiles [data-figure]")) {
    place.textContent = texts.get(place.dataset.figure) ?? "-";
  }
}
