// The browser's storage for this page. If the browser denies it, as it may in a frame of another site, values are kept
// in memory for as long as the page is open.

class Memory {
  #values = new Map();

  getItem(key) {
    return this.#values.get(key) ?? null;
  }

  setItem(key, value) {
    this.#values.set(key, String(value));
  }
}

function storage(name) {
  try {
    return globalThis[name];
  } catch {
    return new Memory();
  }
}

/** Values that later visits find. */
export const lasting = storage("localStorage");

/** Values of this tab. */
export const ofThisTab = storage("sessionStorage");
