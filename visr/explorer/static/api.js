// The way to the server: the browser sends the cookie with every request; one place that knows whether it answers, and reconnection.

const listeners = new Set();
let state = "connecting";

localStorage.removeItem("visr-token"); // kept there by older versions

export function onConnection(listener) {
  listeners.add(listener);
  listener(state);
}

function become(next) {
  if (next === state) return;
  const previous = state;
  state = next;
  for (const listener of listeners) listener(state, previous);
}

export class Refused extends Error {}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    become("connecting");
    throw new Refused("The explorer does not answer; is it still running?");
  }
  if (answer.status === 401) become("refused");
  else become("connected");
  return answer;
}

async function json(answer) {
  let content;
  try {
    content = await answer.json();
  } catch {
    throw new Refused("The explorer's answer could not be read.");
  }
  if (!answer.ok) throw new Refused(content.error || "The explorer refused.");
  return content;
}

export const get = async (path) => json(await ask(path));
export const file = async (path) => {
  const answer = await ask(path);
  return answer.ok ? answer.blob() : json(answer);
};
export const post = async (path, body = {}) =>
  json(await ask(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } }));

// A websocket that comes back by itself; `opened` runs after every (re)connection.
export class Live {
  constructor({ opened, moment, refused }) {
    Object.assign(this, { opened, moment, refused, wait: 300, wanted: true });
    this.connect();
  }

  connect() {
    const socket = new WebSocket(`ws://${location.host}/api/live`, ["visr"]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.wait = 300;
      this.opened();
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") this.refused(JSON.parse(data).error);
      else this.moment(...unpacked(data));
    };
    socket.onclose = () => {
      if (!this.wanted) return;
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(this.wait * 1.6, 4000);
    };
    this.socket = socket;
  }

  send(what, extra = {}) {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify({ do: what, ...extra }));
    return true;
  }
}

// A length, as many bytes of JSON, and a PNG (or nothing).
function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const rest = buffer.byteLength - 4 - length;
  return [head, rest ? new Blob([new Uint8Array(buffer, 4 + length)], { type: "image/png" }) : null];
}
