// The skill atlas as it grows.

import { file, get, post } from "./api.js";
import { requestTask } from "./chooser.js";
import { number } from "./plots.js";
import { $, facts, make } from "./store.js";

let skills = [];
let asking = false;

export function setup(openWatch) {
  $("atlas-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("/api/atlas", { skills: Number($("atlas-count").value), seed: Number($("atlas-seed").value) });
      skills = [];
      follow(openWatch);
    } catch (error) {
      $("atlas-summary").textContent = error.message;
    }
  });
  $("atlas-export").addEventListener("click", download);
  setup.open = openWatch;
}

// Whatever there is already, perhaps from another tab.
export const open = () => follow(setup.open);

async function follow(openWatch) {
  if (asking) return;
  asking = true;
  try {
    for (;;) {
      const answer = await get(`/api/atlas?have=${skills.length}`);
      if (answer.is_drawing) skills.push(...answer.skills);
      else skills = answer.skills;
      show(answer, openWatch);
      if (!answer.is_drawing) break;
      await new Promise((done) => setTimeout(done, 400));
    }
  } catch (error) {
    $("atlas-summary").textContent = error.message;
  }
  asking = false;
}

function show(answer, openWatch) {
  const done = !answer.is_drawing && skills.length > 0;
  $("atlas-export").disabled = !done;
  $("atlas-make").disabled = answer.is_drawing;
  $("atlas-progress").hidden = !answer.is_drawing;
  $("atlas-progress").firstElementChild.style.width = `${(100 * skills.length) / (answer.wanted || 1)}%`;
  $("atlas-warnings").replaceChildren(...(done ? answer.warnings : []).map((words) => make("p", { class: "warning" }, words)));
  $("atlas-summary").textContent = answer.error
    || (answer.is_drawing ? `Playing skill ${skills.length + 1} of ${answer.wanted} …` : "")
    || (done ? `Told apart: ${number(answer.discriminability)} on average; given one state of each of two skills, how often φ says which is whose (0.5 is chance, 1 is always).` : "Nothing here yet: making an atlas plays every skill for a little while.");
  $("atlas-grid").replaceChildren(...skills.map((skill) => card(skill, answer, done, openWatch)));
}

function card(skill, answer, done, openWatch) {
  const watch = make("button", { async onclick() { if (await requestTask({ kind: "direction", w: skill.w })) openWatch(); } }, "Watch");
  const rows = [];
  if (skill.lift !== null) rows.push(["lift", number(skill.lift)]);
  if (skill.reached !== null) rows.push(["in recorded steps", `${(100 * skill.reached).toFixed(2)} %`]);
  if (!facts().grid) rows.push(["return", number(skill.score)]);
  if (done) rows.push(["separability", number(skill.discriminability)]);
  rows.push(["own reward", number(skill.own_reward)]);
  const pictures = make("div", { class: "screens" }, film(skill, answer.scale));
  if (skill.visits) pictures.append(make("img", { class: "visits", alt: `Visits of ${skill.name}`, src: skill.visits }));
  return make("article", { class: "skill" },
    make("h3", {}, make("span", {}, skill.name), watch), pictures,
    make("dl", {}, ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    ...(skill.nearest === null || !done ? [] : [make("p", { class: "muted" }, `like ${skills[skill.nearest].name}`)]));
}

function film(skill, [tall, wide]) {
  if (!skill.film) return make("p", { class: "muted" }, "This environment cannot draw itself.");
  const element = make("div", { class: "film", role: "img", tabindex: 0, "aria-label": `Film of ${skill.name}` });
  element.style.setProperty("--frames", skill.num_frames);
  element.style.backgroundImage = `url(${skill.film})`;
  element.style.animationDuration = `${skill.num_frames / 8}s`;
  element.style.aspectRatio = `${skill.size[0] * wide} / ${skill.size[1] * tall}`;
  return element;
}

async function download() {
  try {
    const url = URL.createObjectURL(await file("/api/atlas.html"));
    make("a", { href: url, download: "atlas.html" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  } catch (error) {
    $("atlas-summary").textContent = error.message;
  }
}
