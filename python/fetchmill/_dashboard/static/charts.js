// The charts: uPlot draws them, this says what and in which colours.
import * as figures from "./figures.js";

const HEIGHT = 180;
// Steps of an axis of bytes: 1 B to 1 PiB.
const BINARY_STEPS = Array.from({ length: 51 }, (_none, power) => 2 ** power);
const COLOURS = 8;
// Failure kinds with a line of their own.
const KINDS_MAX = COLOURS - 1;
// So that lines differ where colours do not.
const DASHES = [[], [6, 3], [2, 2], [10, 3, 2, 3]];

const each = (name) => (sample) => sample[name] / sample.interval;
const time = (name) => (sample) => sample.latency?.[name];

// Title, how values are written, how an axis writes them, and lines: what it is called and its value in a sample.
const FIXED = [
  ["Objects and requests a second", figures.perSecond, figures.shortCount,
    () => [["objects", each("settled")], ["requests", each("attempts")]]],
  ["Bytes a second", figures.bytesPerSecond, figures.bytes, () => [["bytes", each("bytes")]]],
  ["Latency", figures.latency, figures.latency,
    () => [["median", time("p50")], ["90 %", time("p90")], ["99 %", time("p99")]]],
  ["Requests in flight", figures.count, figures.shortCount,
    () => [["in flight", (sample) => sample.in_flight], ["at most", (sample) => sample.concurrency]]],
  ["Failed targets a second, by kind", figures.perSecond, figures.shortCount, failureLines],
];

function failureLines(samples) {
  const kinds = figures.kindsOf(samples);
  const lines = kinds.slice(0, KINDS_MAX).map((kind) => [kind, (sample) => (sample.failures[kind] ?? 0) / sample.interval]);
  const rest = kinds.slice(KINDS_MAX);
  const others = (sample) => rest.reduce((sum, kind) => sum + (sample.failures[kind] ?? 0), 0) / sample.interval;
  return rest.length > 0 ? [...lines, ["others", others]] : lines;
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const colour = (index) => style(`--line-${index % COLOURS}`);

function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

// A chart in its figure. It is made anew when its lines or the colours change.
class Chart {
  constructor(parent, title, nothing) {
    this.figure = element("figure");
    this.figure.append(element("figcaption", title));
    this.nothing = element("p", nothing);
    this.nothing.className = "nothing";
    this.place = element("div");
    this.figure.append(this.place, this.nothing);
    parent.append(this.figure);
    this.plot = null;
    this.made = "";
    new ResizeObserver(() => this.fit()).observe(this.figure);
  }

  // The lines' names tell whether what is there still fits.
  show(names, options, data) {
    const isEmpty = names.length === 0 || data[0].length === 0;
    this.nothing.hidden = !isEmpty;
    this.place.hidden = isEmpty;
    if (isEmpty) return;
    const made = JSON.stringify([names, style("--page")]);
    if (made === this.made) {
      this.plot.setData(data);
    } else {
      this.plot?.destroy();
      this.made = made;
      this.plot = new uPlot({ ...options(), width: this.width(), height: HEIGHT }, data, this.place);
    }
    this.showLast();
  }

  // The legend has the last values while nobody points at others.
  showLast() {
    if (this.plot.legend.show && this.plot.cursor.idx == null) this.plot.setLegend({ idx: this.plot.data[0].length - 1 });
  }

  width() {
    const edges = getComputedStyle(this.figure);
    return Math.max(200, this.figure.clientWidth - parseFloat(edges.paddingLeft) - parseFloat(edges.paddingRight));
  }

  fit() {
    if (this.plot && this.plot.width !== this.width()) this.plot.setSize({ width: this.width(), height: HEIGHT });
  }
}

function axes(write, size, steps) {
  const common = { stroke: style("--soft"), font: "12px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: style("--grid"), width: 1 };
  return [
    { ...common, grid, size: 30, space: 70, values: (plot, splits, _axis, _space, step) => splits.map((at) => axisTime(at, step)) },
    { ...common, grid, size, ...(steps && { incrs: steps }), values: (plot, splits) => splits.map(write) },
  ];
}

// Also where an axis finds whole hours and days.
const inUtc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
const axisTime = (at, step) => (step >= 60 ? figures.clock(at).slice(0, 5) : figures.clock(at));

function hooksOf(chart) {
  // Back to the last values when the pointer has left.
  return { setCursor: [(plot) => { if (plot.cursor.idx == null && chart.plot === plot) chart.showLast(); }] };
}

// The last time of the axis has room.
const PADDING = [null, 28, null, null];
const TIMES = { label: "at", value: (_plot, value) => (value == null ? "-" : `${figures.clock(value)} UTC`) };
const CURSOR = { sync: { key: "charts" }, y: false, drag: { x: true, y: false } };

function lineOptions(chart, lines, write, writeAxis) {
  return () => ({
    tzDate: inUtc,
    padding: PADDING,
    cursor: CURSOR,
    hooks: hooksOf(chart),
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: axes(writeAxis, 68, writeAxis === figures.bytes ? BINARY_STEPS : null),
    series: [
      TIMES,
      ...lines.map(([name], index) => ({
        label: name,
        stroke: colour(index),
        width: 2,
        dash: DASHES[index % DASHES.length],
        points: { show: false },
        value: (_plot, value) => write(value),
      })),
    ],
  });
}

// What has limited the job: a row for each, filled while it did.
function limitOptions(chart, kinds, samples) {
  const fill = (plot, index, first, last) => {
    const path = new Path2D();
    const row = kinds.length - index;
    const [top, bottom] = [row + 0.8, row + 0.2].map((at) => plot.valToPos(at, "y", true));
    for (let at = first; at <= last; at += 1) {
      if (plot.data[index][at] == null) continue;
      const end = plot.data[0][at];
      const [from, to] = [end - plot.data[index][at], end].map((x) => plot.valToPos(x, "x", true));
      path.rect(from, top, Math.max(1, to - from), bottom - top);
    }
    return { fill: path, stroke: null, clip: null, band: null, gaps: null, flags: 1 };
  };
  return () => {
    const [x, y] = axes(figures.count, 90);
    const rows = kinds.map((_kind, index) => index + 0.5);
    return {
      tzDate: inUtc,
      padding: PADDING,
      cursor: { ...CURSOR, points: { show: false } },
      // The rows have their names beside them.
      legend: { show: false },
      scales: { y: { range: [0, kinds.length] } },
      axes: [x, { ...y, grid: { show: false }, splits: () => rows, values: () => [...kinds].reverse() }],
      series: [
        {},
        ...kinds.map((kind, index) => ({
          label: kind,
          fill: colour(index),
          stroke: colour(index),
          paths: fill,
          points: { show: false },
        })),
      ],
    };
  };
}

export class Charts {
  constructor(parent) {
    this.fixed = FIXED.map(([title, ...rest]) => [new Chart(parent, title, "nothing yet"), ...rest]);
    this.limits = new Chart(parent, "Limited by", "not known yet");
    this.samples = [];
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.samples));
  }

  show(samples) {
    this.samples = samples;
    for (const [chart, write, writeAxis, linesOf] of this.fixed) {
      const lines = linesOf(samples);
      const data = figures.columnsOf(samples, lines.map(([, read]) => read));
      chart.show(lines.map(([name]) => name), lineOptions(chart, lines, write, writeAxis), data);
    }
    const kinds = figures.limitsOf(samples);
    const reads = kinds.map((kind) => (sample) => (sample.limited_by === kind ? sample.interval : null));
    this.limits.show(kinds, limitOptions(this.limits, kinds, samples), figures.columnsOf(samples, reads));
  }
}
