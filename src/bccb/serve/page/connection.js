// Asks the service for one path again and again.

const EVERY = 1_000; // milliseconds from one request to the next
const LONGEST = 15_000; // between tries while the service does not answer
const PATIENCE = 10_000; // for one answer
const LONG_PATIENCE = 60_000; // for a change: a policy may have to be compiled first
const KEY = "bccb-key";

/** The API key, kept for this tab alone. */
export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** A request with the key, if there is one. */
export function fetchWithKey(path, options = {}) {
  const headers = { ...options.headers };
  if (key.get() !== null) headers.Authorization = `Bearer ${key.get()}`;
  return fetch(path, { ...options, headers, cache: "no-store" });
}

/** Ask for a change; gives `{ok, body}`, where the body of a refusal says why. */
export async function post(path, body = {}) {
  const options = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(LONG_PATIENCE),
  };
  try {
    const response = await fetchWithKey(path, options);
    const answer = await response.json().catch(() => null);
    const detail = `The service answered ${response.status}.`;
    return { ok: response.ok, body: answer ?? { detail } };
  } catch {
    return { ok: false, body: { detail: "The service does not answer. Nothing is lost: try again." } };
  }
}

/**
 * One loop that asks, shows and waits: no two requests can overlap.
 *
 * It calls `answered(body, scope)`, `refused(status)`, `missing()` or `lost(reason)`.
 */
export class Connection {
  lastSeen = null;
  nextTry = null;
  #handler;
  #path = null;
  #request = null;
  #wake = () => {};
  #failures = 0;

  constructor(handler) {
    this.#handler = handler;
    document.addEventListener("visibilitychange", () => this.#wake());
    window.addEventListener("online", () => this.#wake());
    this.#run();
  }

  /** Ask for this path from now on, and drop the answer that is under way. */
  watch(path) {
    this.#path = path;
    this.again();
  }

  /** Ask at once, such as with another key. */
  again() {
    this.#failures = 0;
    this.#request?.abort();
    this.#wake();
  }

  async #run() {
    for (;;) {
      const idle = this.#path === null || document.hidden;
      await this.#pause(idle ? Infinity : await this.#ask());
    }
  }

  #pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = milliseconds === Infinity ? null : setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** One request; gives how long to wait before the next. */
  async #ask() {
    const began = performance.now();
    const request = new AbortController();
    this.#request = request;
    let wait;
    try {
      const answer = await this.#fetch(request);
      if (request.signal.aborted) return 0;
      wait = this.#take(answer, began);
    } catch (problem) {
      if (request.signal.aborted) return 0;
      wait = this.#miss(problem.name === "TimeoutError" ? "the service is slow to answer" : "");
    } finally {
      this.#request = null;
    }
    return wait;
  }

  async #fetch(request) {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(PATIENCE)]);
    const response = await fetchWithKey(this.#path, { signal });
    // A proxy in between may answer in words of its own; only a good answer has to be JSON.
    const body = response.ok ? await response.json() : await response.json().catch(() => null);
    const scope = response.headers.get("bccb-scope");
    return { status: response.status, ok: response.ok, body, scope };
  }

  #take({ status, ok, body, scope }, began) {
    if (status >= 500) return this.#miss(body?.detail ?? `the service answered ${status}`);
    this.#failures = 0;
    this.lastSeen = Date.now();
    if (ok) {
      this.#tell(() => this.#handler.answered(body, scope));
      return Math.max(EVERY / 4, EVERY - (performance.now() - began));
    }
    if (status === 401 || status === 403) {
      this.#tell(() => this.#handler.refused(status));
      return Infinity;
    }
    this.#tell(() => this.#handler.missing());
    return LONGEST;
  }

  #miss(reason) {
    const wait = Math.min(LONGEST, EVERY * 2 ** this.#failures);
    this.#failures += 1;
    this.nextTry = Date.now() + wait;
    this.#tell(() => this.#handler.lost(reason));
    return wait;
  }

  /** A fault in showing one answer must not end the loop. */
  #tell(show) {
    try {
      show();
    } catch (fault) {
      reportError(fault);
    }
  }
}
