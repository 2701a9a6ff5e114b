// Colour maps that everybody can tell apart: blue-neutral-red around zero, viridis for amounts.

const LIGHT = ["#1d5f9f", "#6fabd3", "#f4f4f2", "#ee9777", "#a5182a"];
const DARK = ["#8fd0f7", "#2f78ab", "#262b30", "#a8492f", "#ffb796"];
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];

const parsed = (stops) => stops.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
const maps = { light: parsed(LIGHT), dark: parsed(DARK), viridis: parsed(VIRIDIS) };

export const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
export const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function at(stops, place) {
  const x = Math.min(Math.max(place, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(x), stops.length - 2);
  const t = x - i;
  return stops[i].map((low, k) => Math.round(low + t * (stops[i + 1][k] - low)));
}

// x in [-1, 1] -> [r, g, b]
export const diverging = (x) => at(isDark() ? maps.dark : maps.light, (x + 1) / 2);
// x in [0, 1] -> [r, g, b]
export const viridis = (x) => at(maps.viridis, x);
export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
// Black or white, whichever can be read on it.
export const readable = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#15181b" : "#ffffff");

export function legend(element, name) {
  const of = name === "viridis" ? viridis : (x) => diverging(2 * x - 1);
  const stops = Array.from({ length: 9 }, (_, i) => css(of(i / 8)));
  element.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
}
