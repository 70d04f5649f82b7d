// A chart of lines over time or age, with a legend that reads the figures and a table that tells the same.

import { write } from "./dom.js";
import { duration, moment, timeLabels } from "./format.js";

// Its own script, which index.html names before this module: a third of the size of the module.
const { uPlot } = window;

const HEIGHT = 240;
const MOST_ROWS = 12;
const DARK = matchMedia("(prefers-color-scheme: dark)");

// Whole seconds at least: labels show no less, and would repeat.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000].map((days) => 86_400 * days)];
const LEAST = 10; // seconds from side to side

/** The first moments of a campaign are not stretched over the whole chart. */
const atLeast = (_, first, last) => [first, Math.max(last, first + LEAST)];

/** The value of a colour in the style sheet, as it is now. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** So many of these places, evenly spread, the first and the last among them. */
function spread(length, most) {
  if (length <= most) return Array.from({ length }, (_, place) => place);
  return Array.from({ length: most }, (_, row) => Math.round((row * (length - 1)) / (most - 1)));
}

/** A top for the axis that the highest value seldom reaches: the scale then rests. */
export function roomAbove(highest) {
  if (!(highest > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(highest));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= 1.02 * highest) * unit || 11 * unit;
}

/** Moments from left to right. */
export const TIME = {
  head: "Time",
  show: (at) => moment(new Date(1_000 * at), true),
  labels: timeLabels,
  place: (data) => data[0].length - 1,
};

/** Ages in seconds from left to right; at rest the legend tells where half of the first line is reached. */
export const AGE = {
  head: "After",
  show: (age) => `after ${duration(age)}`,
  labels: (splits) => splits.map((age) => (age === 0 ? "0" : duration(age))),
  place: ([, line]) => Math.max(0, line.findIndex((share) => share >= 0.5)),
};

/**
 * One chart. `lines` are {label, colour, dash, width, fill?, step?}, `show` writes a value,
 * `short` writes it at the axis, `across` is what runs from left to right.
 */
export class Chart {
  #lines;
  #show;
  #short;
  #across;
  #plot = null;
  #data = null;
  #top = 1;
  #bottom = 0;
  #parts;

  constructor(name, lines, { show, short, across = TIME }) {
    this.#across = across;
    this.#lines = lines;
    this.#show = show;
    this.#short = short;
    const part = (suffix) => document.getElementById(`${name}-${suffix}`);
    const parts = ["plot", "legend", "when", "details"];
    this.#parts = Object.fromEntries(parts.map((suffix) => [suffix, part(suffix)]));
    this.#makeLegend();
    this.#makeHead();
    DARK.addEventListener("change", () => this.#rebuild());
    new ResizeObserver(() => this.#resize()).observe(this.#parts.plot);
    this.#parts.details.addEventListener("toggle", () => this.#fillTable());
  }

  /** Show these points: times or ages, then the values of each line, on an axis from `bottom` to `top`. */
  update(data, top, description, bottom = 0) {
    this.#data = data;
    this.#top = top;
    this.#bottom = bottom;
    if (this.#parts.plot.getAttribute("aria-label") !== description) {
      this.#parts.plot.setAttribute("aria-label", description);
    }
    if (this.#plot === null) this.#rebuild();
    else this.#plot.setData(data);
    this.#readOff();
    this.#fillTable();
  }

  #rebuild() {
    if (this.#data === null) return;
    this.#plot?.destroy();
    this.#plot = new uPlot(this.#options(), this.#data, this.#parts.plot);
  }

  #resize() {
    const width = this.#parts.plot.clientWidth;
    if (this.#plot !== null && width > 0 && width !== this.#plot.width) {
      this.#plot.setSize({ width, height: HEIGHT });
    }
  }

  #options() {
    const axis = {
      stroke: colour("--quiet"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: colour("--rule"), width: 1 },
      ticks: { show: false },
    };
    return {
      width: Math.max(1, this.#parts.plot.clientWidth),
      height: HEIGHT,
      padding: [8, 24, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: { time: this.#across === TIME, range: atLeast }, y: { range: () => [this.#bottom, this.#top] } },
      axes: [
        {
          ...axis,
          grid: { show: false },
          space: 66,
          incrs: STEPS,
          size: (_, labels) => (labels?.some((label) => label.includes("\n")) ? 42 : 26),
          values: (_, splits, __, ___, step) => this.#across.labels(splits, step),
        },
        {
          ...axis,
          space: 44,
          values: (_, splits) => splits.map((value) => this.#short(value)),
          // As wide as its longest label, so that no figure is cut off.
          size: (_, labels) => 18 + 7 * Math.max(2, ...(labels ?? []).map((label) => label.length)),
        },
      ],
      series: [{}, ...this.#lines.map((line) => this.#series(line))],
      hooks: { setCursor: [() => this.#readOff()] },
    };
  }

  #series(line) {
    return {
      stroke: colour(line.colour),
      width: line.width ?? 2,
      dash: line.dash,
      fill: line.fill === undefined ? undefined : colour(line.fill),
      paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: { show: false },
    };
  }

  #makeLegend() {
    for (const line of this.#lines) {
      const pair = document.createElement("div");
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      const sample = document.createElement("span");
      sample.className = `sample ${line.sample}`;
      term.append(sample, line.label);
      pair.append(term, value);
      this.#parts.legend.append(pair);
    }
  }

  /** The legend tells the values under the pointer, or else those where it rests. */
  #readOff() {
    if (this.#data === null) return;
    const [times, ...values] = this.#data;
    const place = this.#plot?.cursor.idx ?? this.#across.place(this.#data);
    const cells = this.#parts.legend.querySelectorAll("dd");
    values.forEach((line, row) => write(cells[row], this.#value(line[place])));
    const time = times[place];
    write(this.#parts.when, time === undefined ? "" : this.#across.show(time));
  }

  #value(value) {
    return value === null || value === undefined ? "\u2013" : this.#show(value);
  }

  #makeHead() {
    const row = this.#parts.details.querySelector("thead").insertRow();
    for (const title of [this.#across.head, ...this.#lines.map((line) => line.label)]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      write(cell, title);
      row.append(cell);
    }
  }

  /** The table keeps its cells, so that a reader's place in it is not lost. */
  #fillTable() {
    if (!this.#parts.details.open || this.#data === null) return;
    const body = this.#parts.details.querySelector("tbody");
    const places = spread(this.#data[0].length, MOST_ROWS);
    while (body.rows.length > places.length) body.deleteRow(-1);
    places.forEach((place, number) => {
      const row = body.rows[number] ?? body.insertRow();
      this.#data.forEach((line, column) => {
        const cell = row.cells[column] ?? row.insertCell();
        write(cell, column === 0 ? this.#across.show(line[place]) : this.#value(line[place]));
      });
    });
  }
}
