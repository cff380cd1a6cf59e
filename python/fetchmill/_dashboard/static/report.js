// Shows what is in the file itself: a job as it stood when the report was written.
import { show } from "./page.js";

const { snapshot, samples } = JSON.parse(document.getElementById("report").textContent);
show(snapshot, samples, Infinity);
// It is about all runs.
for (const cell of document.querySelectorAll("#figures th")) {
  cell.textContent = cell.textContent.replace(/ (in|of) this run$/, " of all runs");
}
for (const row of [...document.querySelectorAll("#figures tbody tr")]) {
  // What only a running job has.
  if (row.cells[1].textContent === "-") row.remove();
}
