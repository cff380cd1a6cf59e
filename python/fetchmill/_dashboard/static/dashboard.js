// Asks for the figures of the job once a second and shows them. The server may go away and come back: the page waits.
import * as figures from "./figures.js";
import { show, showState } from "./page.js";

const POLL_MS = 1000;
const ANSWER_MS = 5000;
// The job keeps at most 720: where there are more here, it has merged its own meanwhile.
const SAMPLES_MAX = 900;

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
      show(snapshot, samples);
    } catch (error) {
      awaySince ??= Date.now() / 1000;
      showAway(error);
    }
  }
  setTimeout(poll, POLL_MS);
}

function showAway(error) {
  const why = error instanceof TypeError || error.name === "TimeoutError" ? "" : ` (${error.message})`;
  showState("away", `no answer since ${figures.clock(awaySince)} UTC${why}: the job has ended, or cannot be reached`);
  document.title = "away - fetchmill";
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) isFirst = true; });
poll();
