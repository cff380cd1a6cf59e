// Asks for the figures of the job once a second and shows them. The server may go away and come back: the page waits.
import { Charts } from "./charts.js";
import * as figures from "./figures.js";

const POLL_MS = 1000;
const ANSWER_MS = 5000;
// The job keeps at most 720: where there are more here, it has merged its own meanwhile.
const SAMPLES_MAX = 900;

const PHASES = {
  listing: "running, not all is listed yet",
  fetching: "running",
  draining: "ending: what is in flight is finished",
  done: "done",
};

const find = (id) => document.getElementById(id);
const charts = new Charts(find("charts"));
// Addresses without the user and the password that this one may have been opened with.
const base = location.origin + location.pathname;

let version = null;
let started = null;
let samples = [];
let isFirst = true;
let awaySince = null;

async function ask(path) {
  const reply = await fetch(new URL(path, base), { signal: AbortSignal.timeout(ANSWER_MS) });
  if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
  return reply.json();
}

async function askSamples() {
  const after = samples.length > 0 ? samples.at(-1).time : 0;
  const found = (await ask(`api/samples?after=${after}`)).samples;
  const all = [...samples, ...found];
  const isCoarser = found.length > 0 && samples.length > 0 && found.at(-1).interval > 1.5 * samples.at(-1).interval;
  if (after > 0 && (isCoarser || all.length > SAMPLES_MAX)) return (await ask("api/samples?after=0")).samples;
  return all;
}

async function poll() {
  if (!document.hidden || isFirst) {
    try {
      const snapshot = await ask("api/snapshot");
      if (version !== null && snapshot.version !== version) location.reload();
      version = snapshot.version;
      if (snapshot.start_time !== started) samples = [];
      started = snapshot.start_time;
      samples = await askSamples();
      awaySince = null;
      isFirst = false;
      show(snapshot);
    } catch (error) {
      awaySince ??= Date.now() / 1000;
      showAway(error);
    }
  }
  setTimeout(poll, POLL_MS);
}

function write(id, text) {
  const place = find(id);
  if (place.textContent !== text) place.textContent = text;
}

function showState(state, text) {
  find("state").dataset.state = state;
  write("state", text);
  document.body.classList.toggle("stale", state === "away");
}

function showAway(error) {
  const why = error instanceof TypeError || error.name === "TimeoutError" ? "" : ` (${error.message})`;
  showState("away", `no answer since ${figures.clock(awaySince)} UTC${why}: the job has ended, or cannot be reached`);
  document.title = "away - fetchmill";
}

function show(snapshot) {
  const rates = figures.ratesOf(samples);
  const { text, share } = figures.progressOf(snapshot, rates);
  showState(snapshot.phase, PHASES[snapshot.phase] ?? snapshot.phase);
  write("command", snapshot.command ?? "");
  write("job", [snapshot.source, snapshot.dest].filter(Boolean).join(" \u2192 "));
  write("done", text);
  const bar = find("bar");
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
  const limit = snapshot.limited_by;
  write("limited", limit ? `limited by ${limit.text}` : "");
  showList(find("waits"), snapshot.waits.map((wait) => `waiting: ${wait.what}`));
  const rows = figures.rowsOf(snapshot, rates);
  showRows(find("figures"), rows);
  showRows(find("failures"), failureRows(snapshot));
  showTiles(rows);
  charts.show(samples);
  document.title = `${share === null ? figures.perSecond(rates.settled) : `${Math.floor(100 * share)} %`} - fetchmill`;
}

function failureRows(snapshot) {
  const kinds = Object.entries(snapshot.failures).sort((one, other) => other[1] - one[1]);
  return kinds.length > 0 ? kinds.map(([kind, number]) => [kind, kind, figures.count(number)]) : [["none", "none", "0"]];
}

function showList(list, texts) {
  if (list.children.length === texts.length && texts.every((text, at) => list.children[at].textContent === text)) return;
  list.replaceChildren(...texts.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
}

// Rows that are there stay, so that what reads them aloud or has marked them is not disturbed.
function showRows(table, rows) {
  const body = table.tBodies[0];
  rows.forEach(([name, key, text], at) => {
    const row = body.rows[at] ?? newRow(body);
    row.dataset.figure = key;
    if (row.cells[0].textContent !== name) row.cells[0].textContent = name;
    if (row.cells[1].textContent !== text) row.cells[1].textContent = text;
  });
  while (body.rows.length > rows.length) body.deleteRow(-1);
}

function newRow(body) {
  const row = body.insertRow();
  const head = document.createElement("th");
  head.scope = "row";
  row.append(head, document.createElement("td"));
  return row;
}

function showTiles(rows) {
  const texts = new Map(rows.map(([, key, text]) => [key, text]));
  for (const place of document.querySelectorAll(".tiles [data-figure]")) {
    place.textContent = texts.get(place.dataset.figure) ?? "-";
  }
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) isFirst = true; });
poll();
