// Painting rewards on the grid; every stroke is answered with all that the agent makes of it.

import { post } from "./api.js";
import { legend } from "./colours.js";
import { brushStart, GridMap, moved } from "./gridmap.js";
import { number } from "./plots.js";
import { cancel, refine } from "./refine.js";
import { $, complain, make, on, setTask, task } from "./store.js";
import { actBy } from "./taskcard.js";

const WALK = 60;
let world, maps, reward, answer, refined, phiMaps;
let past = [];
let busy = false, waiting = false, asked = 0;
let start = null, walker = null;
let pointer = null;

export function setup() {
  on("facts", (run) => {
    if (run.grid) build(run);
  });
  document.addEventListener("visr-theme", redraw);
}

function build(run) {
  const isNew = !world;
  world = run.grid;
  if (isNew) {
    reward = new Array(world.free.length).fill(0);
    maps = {
      reward: new GridMap($("map-reward"), world, { signs: true }),
      represented: new GridMap($("map-represented"), world),
      value: new GridMap($("map-value"), world, { scale: "viridis" }),
      visits: new GridMap($("map-visits"), world, { scale: "viridis", log: true }),
    };
    $("paint-gpi").checked = run.gpi;
    listen();
    maps.reward.show(reward);
    preset("boxes:7");
  }
  phiMaps = run.grid.phi.map((values, i) => phiMap(values, i));
  $("phi-maps").replaceChildren(...phiMaps.map((map) => map.figure));
  redraw();
}

function phiMap(values, index) {
  const canvas = make("canvas", { role: "img", "aria-label": `Feature ${index + 1}` });
  const figure = make("figure", {}, canvas, `φ ${index + 1}`);
  const map = new GridMap(canvas, world);
  map.values = values;
  return { figure, map };
}

function listen() {
  const board = $("map-reward");
  board.addEventListener("pointerdown", (event) => {
    board.setPointerCapture(event.pointerId);
    remember();
    pointer = maps.reward.cell(event);
    if (pointer) stroke(pointer, event.button === 2 || event.altKey ? -1 : brush());
    board.focus({ preventScroll: true });
  });
  board.addEventListener("pointermove", (event) => {
    const cell = maps.reward.cell(event);
    maps.reward.cursor = cell && { ...cell, size: size() };
    if (pointer && cell) {
      for (const between of line(pointer, cell)) stroke(between, event.buttons & 2 || event.altKey ? -1 : brush());
      pointer = cell;
    } else maps.reward.draw();
  });
  for (const end of ["pointerup", "pointercancel"]) board.addEventListener(end, () => (pointer = null));
  board.addEventListener("pointerleave", () => {
    maps.reward.cursor = null;
    maps.reward.draw();
  });
  board.addEventListener("contextmenu", (event) => event.preventDefault());
  keys(board, maps.reward, size, (cell) => {
    remember();
    stroke(cell, brush());
  });
  keys($("map-value"), maps.value, () => 1, walkFrom);
  $("map-value").addEventListener("click", (event) => walkFrom(maps.value.cell(event)));
  $("undo").addEventListener("click", undo);
  $("clear").addEventListener("click", clear);
  $("preset-boxes").addEventListener("click", () => preset(`boxes:${Math.floor(Math.random() * 1000)}`));
  $("preset-goal").addEventListener("click", randomGoal);
  $("preset-edge").addEventListener("click", () => preset(["col == 0", "row == 0", "col == width - 1", "row == height - 1"][Math.floor(Math.random() * 4)]));
  $("preset-form").addEventListener("submit", (event) => {
    event.preventDefault();
    preset($("preset-text").value);
  });
  $("paint-gpi").addEventListener("change", () => {
    actBy($("paint-gpi").checked);
    ask();
  });
  $("believed").addEventListener("change", redraw);
  $("paint-refined").addEventListener("change", () => {
    redraw();
    if (answer) setTask({ ...shown().task, request: { kind: "paint", reward: reward.slice() } });
  });
}

// The keyboard's cursor on a map.
function keys(canvas, map, width, act) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    const here = map.cursor || { row: Math.floor(world.height / 2), col: Math.floor(world.width / 2) };
    if (steps[event.key]) {
      const [down, right] = steps[event.key];
      const row = Math.min(Math.max(here.row + (map.cursor ? down : 0), 0), world.height - 1);
      const col = Math.min(Math.max(here.col + (map.cursor ? right : 0), 0), world.width - 1);
      map.cursor = { row, col, size: width() };
    } else if (event.key === " " || event.key === "Enter") act(here);
    else return;
    event.preventDefault();
    event.stopPropagation();
    map.draw();
    const value = map.values?.[here.row * world.width + here.col];
    canvas.setAttribute("aria-label", `row ${map.cursor?.row ?? here.row}, column ${map.cursor?.col ?? here.col}: ${number(value)}`);
  });
  canvas.addEventListener("blur", () => {
    map.cursor = null;
    map.draw();
  });
}

const brush = () => Number(document.querySelector("[name=brush]:checked").value);
const size = () => Number(document.querySelector("[name=size]:checked").value);

export function shortcut(key, event) {
  if ((event.ctrlKey || event.metaKey) && key === "z") return undo(), true;
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const choose = (name, value) => {
    const input = document.querySelector(`[name=${name}][value="${value}"]`);
    if (input) input.checked = true;
    return true;
  };
  if (key === "p") return choose("brush", 1);
  if (key === "n") return choose("brush", -1);
  if (key === "e") return choose("brush", 0);
  if (key === "]") return choose("size", size() + 1);
  if (key === "[") return choose("size", size() - 1);
  if (key === "c") return clear(), true;
  return false;
}

function remember() {
  past.push(reward.slice());
  if (past.length > 100) past.shift();
  $("undo").disabled = false;
}

function undo() {
  if (!past.length) return;
  reward = past.pop();
  $("undo").disabled = !past.length;
  ask();
}

// Nothing is left but what Undo brings back: no reward, task, walk, expression or error.
function clear() {
  remember();
  reward = reward.map(() => 0);
  start = null;
  clearInterval(walker);
  maps.value.trail = [];
  $("walk-note").textContent = "Click the value map to walk from there.";
  $("preset-text").value = "";
  complain("paint-error", null);
  if (task()?.request?.kind === "paint") setTask(null);
  ask();
}

function stroke(cell, value) {
  const first = brushStart(cell.row, cell.col, size());
  let changed = false;
  for (let row = first.row; row < first.row + size(); row++)
    for (let col = first.col; col < first.col + size(); col++) {
      const s = row * world.width + col;
      if (row < 0 || col < 0 || row >= world.height || col >= world.width || !world.free[s]) continue;
      changed ||= reward[s] !== value;
      reward[s] = value;
    }
  if (changed) ask();
  else maps.reward.draw();
}

// Cells between two places, so that a quick hand leaves no gaps.
function line(from, to) {
  const count = Math.max(Math.abs(to.row - from.row), Math.abs(to.col - from.col), 1);
  return Array.from({ length: count }, (_, i) => ({
    row: Math.round(from.row + ((to.row - from.row) * (i + 1)) / count),
    col: Math.round(from.col + ((to.col - from.col) * (i + 1)) / count),
  }));
}

async function preset(text) {
  try {
    const drawn = await post("/api/preset", { text });
    complain("paint-error", null);
    remember();
    reward = drawn.reward;
    ask();
  } catch (error) {
    complain("paint-error", error);
  }
}

function randomGoal() {
  const free = world.free.map((is, s) => (is ? s : -1)).filter((s) => s >= 0);
  const s = free[Math.floor(Math.random() * free.length)];
  preset(`goal:${Math.floor(s / world.width)},${s % world.width}`);
}

// One question at a time; strokes meanwhile are asked together, the newest picture wins.
async function ask() {
  maps.reward.show(reward);
  asked ||= performance.now();
  if (busy) {
    waiting = true;
    return;
  }
  busy = true;
  cancel();
  const since = asked;
  asked = 0;
  try {
    if (reward.some((r) => r !== 0)) {
      const request = { kind: "paint", reward: reward.slice() };
      answer = await post("/api/paint", { reward, gpi: $("paint-gpi").checked });
      refined = null;
      complain("paint-error", null);
      if (reward.some((r) => r !== 0)) setTask({ ...answer.task, request }); // unless it was cleared meanwhile
      refine(answer.task.id, () => $("paint-gpi").checked, (found) => showRefined(found, request));
    } else answer = refined = null;
    redraw();
    if (answer) $("latency").textContent = `${Math.round(performance.now() - since)} ms`;
  } catch (error) {
    complain("paint-error", error);
  }
  busy = false;
  if (waiting) {
    waiting = false;
    ask();
  }
}

// The instant answer, or the refined one once there is one.
const shown = () => ($("paint-refined").checked && refined?.answer) || answer;

function showRefined(found, request) {
  refined = found;
  redraw();
  if (!found.is_running && found.answer && $("paint-refined").checked) setTask({ ...found.answer.task, request });
}

function refinedNote() {
  if (!answer || !refined) return "";
  if (refined.error) return refined.error;
  if (!refined.answer) return "refining …";
  const [before, after] = [answer, refined.answer].map((a) => number(a.fraction_of_optimal));
  return `${before} → ${after}${refined.is_running ? " …" : ""}`;
}

export const again = () => reward && ask();

function redraw() {
  if (!maps) return;
  for (const bar of document.querySelectorAll(".legend-bar")) legend(bar.querySelector("i"), bar.dataset.map);
  maps.reward.show(reward);
  const now = shown();
  $("refined-note").textContent = refinedNote();
  phiMaps?.forEach(({ map }) => map.draw());
  const values = now && ($("believed").checked ? now.believed : now.values);
  maps.represented.show(now?.represented ?? null);
  maps.visits.show(now?.visits ?? null);
  maps.value.show(values, now?.policy ?? null);
  tiles(values);
  if (start !== null) beginWalk();
}

function tiles(values) {
  const now = shown();
  const set = (id, text) => ($(id).textContent = text);
  set("r-squared", now ? number(now.task.r_squared) : "–");
  set("fraction", now ? number(now.fraction_of_optimal) : "–");
  set("value", now ? number(now.value) : "–");
  set("value-note", now ? `random ${number(now.value_random)}, optimal ${number(now.value_optimal)}` : "of the policy, over all starts");
  if (!now) set("latency", "–");
  const painted = Math.max(...reward.map(Math.abs)) || 1;
  set("reward-low", number(-painted, 0));
  set("reward-high", number(painted, 0));
  $("fraction-meter").style.width = `${100 * Math.min(Math.max(now?.fraction_of_optimal ?? 0, 0), 1)}%`;
  if (!now) {
    for (const [id, words] of Object.entries({ "rep-low": "−", "rep-high": "+", "value-low": "low", "value-high": "high" })) set(id, words);
    return;
  }
  const most = Math.max(...maps.represented.range().map(Math.abs));
  set("rep-low", number(-most));
  set("rep-high", number(most));
  const [low, high] = maps.value.range();
  set("value-low", number(low));
  set("value-high", number(high));
}

function walkFrom(cell) {
  if (!cell || !world.free[cell.row * world.width + cell.col]) return;
  start = cell.row * world.width + cell.col;
  beginWalk();
}

// The greedy walk from the clicked cell, over and over; it is also a number that tests and screen readers can see.
function beginWalk() {
  clearInterval(walker);
  maps.value.trail = [];
  if (!answer) return maps.value.draw();
  let state = start;
  let count = 0;
  maps.value.trail = [state];
  maps.value.draw();
  walker = setInterval(() => {
    const next = moved(world, state, shown().policy[state]);
    if (next === state || count++ > WALK) {
      clearInterval(walker);
      walker = setTimeout(beginWalk, 1200);
      return;
    }
    state = next;
    maps.value.trail = [...maps.value.trail.slice(-30), state];
    maps.value.draw();
    const here = `row ${Math.floor(state / world.width)}, column ${state % world.width}`;
    $("walk-note").textContent = `Walking from row ${Math.floor(start / world.width)}, column ${start % world.width}: now at ${here}, ${count} steps.`;
  }, 140);
}
