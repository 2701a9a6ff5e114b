// Ways to choose a task, one open at a time.

import { get, post } from "./api.js";
import { frames, record } from "./marks.js";
import { $, complain, facts, make, on, setTask, task } from "./store.js";
import * as question from "./question.js";
import { drive, session } from "./watch.js";

let parts = [null, null];

export async function requestTask(what, button = null) {
  if (button) button.disabled = true;
  const isDone = showSeconds();
  try {
    const requested = { ...(await post("/api/task", what)), request: what };
    setTask(requested);
    complain("watch-error", null);
    return requested;
  } catch (error) {
    complain("watch-error", error);
    return null;
  } finally {
    isDone();
    if (button) button.disabled = false;
  }
}

// After a second without an answer the page says that it is computing, and for how long.
export function showSeconds() {
  const began = performance.now();
  const clock = setInterval(() => {
    $("watch-busy").textContent = `Computing … ${Math.round((performance.now() - began) / 1000)} s (the first task of a run may need a sample of its steps)`;
    $("watch-busy").hidden = false;
  }, 1000);
  return () => {
    clearInterval(clock);
    $("watch-busy").hidden = true;
  };
}

const section = (title, open, ...body) =>
  make("details", { name: "task-request", open }, make("summary", {}, title), make("div", { class: "body" }, ...body));
const hint = (words) => make("p", { class: "muted" }, words);

export function setup() {
  let built = false;
  on("facts", (run) => {
    if (!built) {
      built = true;
      $("chooser").append(random(), saved(), environment(run), expression(run), goal(run), demonstration(run), preferences(), marks(), sliders(run), mix());
      if (!task()) requestTask({ kind: "random", seed: 0 });
    }
    const list = $("saved-name");
    const names = run.saved.map((name) => make("option", {}, name));
    list.replaceChildren(...(names.length ? names : [make("option", { value: "" }, "none yet")]));
    list.disabled = !names.length;
  });
  on("task", () => {
    const w = task()?.w;
    if (!w) return;
    document.querySelectorAll("#sliders input").forEach((input, i) => {
      if (document.activeElement !== input) input.value = w[i];
      input.nextElementSibling.textContent = Number(input.value).toFixed(2);
    });
  });
}

function random() {
  const seed = make("input", { type: "number", min: 0, max: 2147483647, value: 0, "aria-label": "Seed of the skill", id: "skill-seed" });
  const go = (next) => {
    if (next) seed.value = Number(seed.value) + 1;
    requestTask({ kind: "random", seed: Number(seed.value) });
  };
  seed.addEventListener("change", () => go(false));
  return section("A random skill", true, make("div", { class: "row" }, make("label", { class: "inline" }, "seed ", seed), make("button", { id: "next-skill", onclick: () => go(true) }, "Next")));
}

function saved() {
  const list = make("select", { id: "saved-name", "aria-label": "Saved tasks" });
  const button = make("button", { onclick: () => list.value && requestTask({ kind: "saved", name: list.value }, button) }, "Load");
  return section("A saved task", false, list, button);
}

function environment(run) {
  const episodes = make("input", { type: "number", min: 1, max: 50, value: 10 });
  const steps = make("input", { type: "number", min: 100, max: 100000, value: run.env.startsWith("ALE/") ? 3000 : 10000, step: 100 });
  const said = hint("");
  const button = make("button", {
    id: "collect-rewards",
    async onclick() {
      const requested = await requestTask({ kind: "environment", episodes: Number(episodes.value), steps: Number(steps.value) }, button);
      said.textContent = requested ? `Inferred by ${requested.method}.` : "";
    },
  }, "Collect rewards");
  return section("The environment's reward", false,
    hint("Plays with random tasks, collects rewards, and finds the w that explains them."),
    make("div", { class: "row" }, make("label", { class: "inline" }, "episodes ", episodes), make("label", { class: "inline" }, "steps ", steps)), button, said);
}

function expression(run) {
  const example = run.grid ? "row > 5 and col < 3" : run.fields.length ? `abs(${run.fields[Math.min(2, run.fields.length - 1)]}) < 0.1` : "";
  const input = make("input", { id: "expression", maxlength: 500, placeholder: example, "aria-label": "Reward as an expression" });
  const button = make("button", {}, "Infer");
  const form = make("form", { class: "body", onsubmit(event) { event.preventDefault(); requestTask({ kind: "expression", text: input.value }, button); } }, input, button);
  const words = run.fields.length ? `Fields: ${run.fields.join(", ")}${run.grid ? "" : ", before_… of the state before, action"}.` : "Observations here are images, which have no fields to name.";
  return section("An expression", false, hint(words), form);
}

function goal(run) {
  const input = make("input", { id: "goal", maxlength: 500, placeholder: run.grid ? "2,3" : `${run.fields[0] ?? "x0"}=0.5`, "aria-label": run.grid ? "Row and column of the goal" : "Numbers of the goal" });
  const button = make("button", {}, "Go there");
  const form = make("form", { class: "body", onsubmit(event) { event.preventDefault(); requestTask({ kind: "goal", text: input.value }, button); } }, input, button);
  const here = make("button", { id: "goal-here", onclick: () => requestTask({ kind: "goal", session: session() }, here) }, "The frame on the screen");
  document.addEventListener("visr-goal", ({ detail }) => requestTask({ kind: "goal", text: detail }));
  const words = run.grid ? "Be in a cell: click it on the screen, or write row,column." : run.fields.length ? `Be in states like this one: numbers of an observation (${run.fields.slice(0, 6).join(", ")}${run.fields.length > 6 ? ", …" : ""}), or step:1234 of the recording.` : "Be in states like the one on the screen.";
  return section("A goal", false, hint(words), ...(run.fields.length ? [form] : []), here);
}

function demonstration(run) {
  const button = make("button", { id: "demonstrate", class: "primary", onclick: () => requestTask({ kind: "demonstration", session: session() }, button) }, "Do what this episode did");
  const actions = run.actions.map((name, i) => make("button", { class: "action", onclick: () => drive(i) }, String(name)));
  return section("A demonstration", false, hint("Play an episode, or drive: every button is one step. Right after a restart, the episode before counts."), make("div", { class: "row", id: "drive" }, ...actions), button);
}

function preferences() {
  const button = make("button", { id: "ask-me", class: "primary", onclick: () => question.ask(button) }, "Ask me");
  return section("Preferences", false, hint("Which of two recorded films do you like better? The task improves with every answer; pairs are chosen where the answers so far say least."), button);
}

function marks() {
  const button = make("button", { onclick: () => recorded(button) }, "Show recorded frames");
  return section("Marked frames", false, hint("Mark what you see with ✓ good (g) and ✕ bad (b) below the screen, or mark frames of the atlas's films."), button);
}

async function recorded(button) {
  button.disabled = true;
  try {
    let drawn = await get("/api/atlas?have=0");
    if (!drawn.skills.length && !drawn.is_drawing) {
      await post("/api/atlas", { skills: 8, seed: 0 });
      drawn = { is_drawing: true };
    }
    while (drawn.is_drawing) {
      await new Promise((done) => setTimeout(done, 400));
      drawn = await get("/api/atlas?have=0");
      button.textContent = `Recording … ${drawn.skills.length} of ${drawn.wanted}`;
    }
    const list = [];
    for (const skill of drawn.skills.filter((s) => s.film)) {
      const film = new Image();
      film.src = skill.film;
      await film.decode();
      list.push(...frames(film, ...skill.size, skill.frame_phi, Math.ceil(skill.num_frames / 3)));
    }
    record(list);
    complain("watch-error", list.length ? null : "This environment cannot draw itself, so there are no frames.");
  } catch (error) {
    complain("watch-error", error);
  }
  button.textContent = "Show recorded frames";
  button.disabled = false;
}

function sliders(run) {
  const rows = Array.from({ length: run.num_features }, (_, i) => {
    const input = make("input", { type: "range", min: -1, max: 1, step: 0.01, value: 0, "aria-label": `w ${i + 1}`, oninput: change });
    return make("label", {}, `${i + 1}`, input, make("output", {}, "0.00"));
  });
  return section("Sliders", false, hint("The components of w; it is brought to unit length."), make("div", { class: "sliders", id: "sliders" }, ...rows));
}

let pending = null;
function change(event) {
  event.target.nextElementSibling.textContent = Number(event.target.value).toFixed(2);
  clearTimeout(pending);
  pending = setTimeout(() => {
    const w = [...document.querySelectorAll("#sliders input")].map((input) => Number(input.value));
    if (w.some((x) => x !== 0)) requestTask({ kind: "direction", w });
  }, 60);
}

function mix() {
  const share = make("input", { type: "range", min: 0, max: 1, step: 0.01, value: 0.5, "aria-label": "Share of the second task" });
  const slots = [0, 1].map((i) => {
    const button = make("button", { onclick() { if (!task()) return; parts[i] = task(); button.textContent = `${"AB"[i]}: ${task().name}`; change(); } }, `Take this task as ${"AB"[i]}`);
    return button;
  });
  const out = make("output", {}, "0.50");
  async function change() {
    out.textContent = Number(share.value).toFixed(2);
    if (!parts[0] || !parts[1]) return;
    const b = Number(share.value);
    // not through `requestTask` alone: parts must be known to a server that may have been restarted
    for (const i of [0, 1]) if (parts[i].stale) parts[i] = { ...(await post("/api/task", parts[i].request)), request: parts[i].request };
    requestTask({ kind: "mix", parts: [{ id: parts[0].id, weight: 1 - b }, { id: parts[1].id, weight: b }] });
  }
  share.addEventListener("input", () => { clearTimeout(pending); pending = setTimeout(change, 60); });
  return section("A mixture of two", false, make("div", { class: "row" }, ...slots), make("label", { class: "inline" }, "A", share, "B ", out));
}

export const forgotten = () => (parts = parts.map((part) => part && { ...part, stale: true }));
