// The task of the moment, wherever a view has room for it: w, how far to trust it, Python, saving.

import { post } from "./api.js";
import { bars, number } from "./plots.js";
import { $, facts, make, on, setFacts, setTask, task } from "./store.js";

// How a task was asked for, and what was counted where no reward was regressed.
const KINDS = { env: "The environment's reward", expression: "A reward", cells: "A reward", function: "A reward", dataset: "A dataset", goal: "A goal", demonstration: "A demonstration", preferences: "Preferences", marks: "Marked frames" };
const COUNTED = { demonstration: "states", preferences: "answers" };
const cards = [];
let gpi = null;

export function setup(openWatch) {
  for (const slot of document.querySelectorAll(".task-slot")) {
    slot.append($("task-card").content.cloneNode(true));
    const card = slot.querySelector(".task");
    cards.push(card);
    card.querySelector(".copy").addEventListener("click", () => copy(card));
    card.querySelector(".to-watch").addEventListener("click", openWatch);
    card.querySelector(".to-watch").hidden = slot.dataset.slot === "watch";
    card.querySelector(".save").addEventListener("submit", (event) => {
      event.preventDefault();
      save(card);
    });
    new ResizeObserver(() => draw(card)).observe(card);
  }
  on("task", () => {
    for (const card of cards) {
      say(card, "");
      draw(card);
    }
  });
}

// Which way of acting "Copy as Python" writes down.
export function actBy(value) {
  gpi = value;
  cards.forEach(draw);
}

const python = () => task()?.python[String(gpi ?? facts().gpi)] ?? "";

function draw(card) {
  const now = task();
  for (const button of card.querySelectorAll("button, input")) button.disabled = !now;
  card.querySelector(".eyebrow").textContent = KINDS[now?.prompt?.kind] ?? "Task";
  card.querySelector(".task-name").textContent = now?.name ?? "none yet";
  card.querySelector(".task-method").textContent = now?.method ?? "";
  card.querySelector(".task-w").hidden = !now;
  if (!now) {
    for (const part of [".task-facts", ".words", "code", ".said"]) card.querySelector(part).replaceChildren();
    return;
  }
  const names = now.w.map((_, i) => `${i + 1}`);
  const plot = card.querySelector(".task-w");
  bars(plot, now.w, { errors: now.standard_error.map((e) => e ?? 0), names });
  plot.setAttribute("aria-label", `w: ${now.w.map((x) => number(x)).join(", ")}`);
  const counted = COUNTED[now.prompt?.kind];
  const rows = counted
    ? [[counted, number(now.num_steps, 0)], ["features", `${now.w.length}`]]
    : now.num_steps > 0
    ? [["R²", number(now.r_squared)], ["condition", number(now.condition_number, 0)], [facts().grid ? "cells" : "steps", number(now.num_steps, 0)], ["rewarded", number(now.num_rewarded, 0)]]
    : [["features", `${now.w.length}`]];
  card.querySelector(".task-facts").replaceChildren(...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  card.querySelector(".words").replaceChildren(...now.words.map((words) => make("li", {}, words)));
  card.querySelector("code").textContent = python();
}

function say(card, words) {
  card.querySelector(".said").textContent = words;
}

async function copy(card) {
  try {
    await navigator.clipboard.writeText(python());
    say(card, "Copied.");
  } catch {
    // without the clipboard's permission: show it, selected
    const details = card.querySelector("details");
    details.open = true;
    getSelection().selectAllChildren(details.querySelector("code"));
    say(card, "Selected below; press Ctrl C.");
  }
}

async function save(card) {
  const name = card.querySelector(".save-name").value.trim();
  try {
    const kept = await post("/api/save", { id: (await remembered()).id, name });
    setFacts({ ...facts(), saved: kept.saved });
    say(card, `Saved as ${kept.file}`);
  } catch (error) {
    say(card, error.message);
  }
}

// A server that was restarted no longer knows the task; send its request again.
async function remembered() {
  const now = task();
  if (!now.stale) return now;
  setTask({ ...(await post("/api/task", now.request)), request: now.request });
  return task();
}

export function forgotten() {
  if (task()) setTask({ ...task(), stale: true });
}
