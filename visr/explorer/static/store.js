// What all views share: the run's facts and the task of the moment.

const listeners = { task: new Set(), facts: new Set() };
const held = { task: null, facts: null };

export const task = () => held.task;
export const facts = () => held.facts;

function set(name, value) {
  held[name] = value;
  for (const listener of listeners[name]) listener(value);
}

export const setTask = (value) => set("task", value);
export const setFacts = (value) => set("facts", value);
export function on(name, listener) {
  listeners[name].add(listener);
  if (held[name]) listener(held[name]);
}
export const $ = (id) => document.getElementById(id);

// An element with attributes and children, never from a string of HTML.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export function complain(id, error) {
  const place = $(id);
  place.textContent = error ? error.message || String(error) : "";
  place.hidden = !error;
}
